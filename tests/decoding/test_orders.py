"""Orders of trials that let time or the trial before be decoded, and schemes for them.

Every kind of design that gives wrong p-values is warned of, with what to do; hardly any
sound design of a kind is. Labels that nobody randomised are exchanged by transitions or
by a trend.
"""

import itertools
import math
import re
import warnings
from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.signal import lfilter
from scipy.special import log_softmax
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold

from mvpa_kfda import (
    check_design,
    cross_validate,
    decode_arrays,
    decode_epochs,
    generalize_epochs,
    load_result,
    methods_text,
    regress,
    verify,
)
from mvpa_kfda.decoding import analysis, orders
from mvpa_kfda.decoding.orders import NOISE, find_in_order
from mvpa_kfda.inference import permutation
from mvpa_kfda.inference.permutation import Trending, arrangements_of, permute_labels
from mvpa_kfda.kfda.folds import make_folds
from mvpa_kfda.utils import memory
from mvpa_kfda.utils.problems import Problem
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


def in_groups(draw, n_groups=RUNS):
    """Return codes that are drawn for each group, and the groups."""
    codes = [draw() for _ in range(n_groups)]
    return np.concatenate(codes), np.repeat(np.arange(n_groups), len(codes[0]))


def shuffled(rng, n, n_groups, n_classes=2):
    """Return codes (n_groups * n,) in random order in each group."""
    return in_groups(lambda: rng.permutation(np.arange(n) % n_classes), n_groups)


def in_windows(rng, size, n=N_RUN, n_groups=RUNS):
    """Return codes of which every so many trials hold both classes equally often."""
    window = np.arange(size) % 2
    return in_groups(
        lambda: np.concatenate([rng.permutation(window) for _ in range(n // size)]),
        n_groups,
    )


def in_blocks(rng, n_blocks, length, n_groups, n_classes=2):
    """Return codes in blocks, whose order is random in each group."""
    order = np.arange(n_blocks) % n_classes
    return in_groups(lambda: np.repeat(rng.permutation(order), length), n_groups)


def lasting(rng, memory, n=N_RUN, n_groups=RUNS, p=1):
    """Return noise (n_groups * n, p) that lasts from trial to trial of a group."""
    noise = rng.standard_normal((n_groups, n, p))
    noise[:, 1:] *= np.sqrt(1 - memory**2)
    return lfilter([1], [1, -memory], noise, axis=1).reshape(-1, p)


def behaving(rng, n=N_RUN, n_groups=RUNS, first=0.3, last=0.7):
    """Return labels of which one comes more and more often in every run."""
    share = np.linspace(first, last, n)
    return in_groups(lambda: (rng.random(n) < share).astype(int), n_groups)


def without_repeats(rng, n_classes):
    """Return labels that never repeat."""
    return in_groups(lambda: rng.integers(1, n_classes, N_RUN).cumsum() % n_classes)


def repeating(rng, share, n=N_RUN, n_groups=RUNS):
    """Return labels of two classes that repeat with a probability."""
    return in_groups(lambda: (rng.random(n) > share).cumsum() % 2, n_groups)


def followed(rng):
    """Return labels that repeat as by chance, and else are often followed by one."""
    shares = np.array([1, 1, 2 / 3, 2 / 3, 2 / 3]) / 4
    steps = [0, 1, 1, 2, 3]
    return in_groups(lambda: rng.choice(steps, N_RUN, p=shares).cumsum() % 4)


def put_together(rng, n=40):
    """Return labels of subjects with unequal shares, without groups."""
    shares = rng.permutation(np.resize([0.3, 0.7], 12))
    return np.concatenate([(rng.random(n) < share) for share in shares]) * 1, None


def patients(rng):
    """Return patients and controls, one after the other, with runs as groups."""
    kinds = rng.permutation(np.arange(12) % 2)
    return np.repeat(kinds, 12), np.tile(np.repeat(np.arange(4), 3), 12)


def second_order(rng):
    """Return sequences in which every class follows each, itself too, equally often."""

    def draw():
        # An Eulerian circuit through a graph with so many edges between all classes.
        left = [list(rng.permutation(np.tile(np.arange(4), 3))) for _ in range(4)]
        stack, path = [0], []
        while stack:
            if left[stack[-1]]:
                stack.append(left[stack[-1]].pop())
            else:
                path.append(stack.pop())
        return np.roll(path[1:], rng.integers(len(path)))

    return in_groups(draw)


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
    "balanced in pairs": (lambda rng: in_windows(rng, 2), "carry-over"),
    "balanced in fours": (lambda rng: in_windows(rng, 4), "carry-over"),
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
        lambda rng: put_together(rng, 20),
        "lasting carry-over",
    ),
    "patients and controls, groups are runs": (patients, "order lasting"),
}
IN_RUNS, IN_FORTIES = np.arange(288) // 48, np.arange(240) // 40
SOUND = {
    "two classes": lambda rng: shuffled(rng, 40, 8),
    "short runs": lambda rng: shuffled(rng, 10, 4),
    "long runs": lambda rng: shuffled(rng, 200, 4),
    "three classes": lambda rng: shuffled(rng, 48, 6, 3),
    "eight classes, one each": lambda rng: shuffled(rng, 8, 12, 8),
    "eight classes": lambda rng: shuffled(rng, 48, 6, 8),
    "no groups": lambda rng: (shuffled(rng, 200, 1)[0], None),
    "no groups, runs of equal classes": lambda rng: (shuffled(rng, 24, 10)[0], None),
    "coins": lambda rng: (rng.integers(2, size=288), IN_RUNS),
    "coins, no groups": lambda rng: (rng.integers(2, size=300), None),
    "unequal classes": lambda rng: ((rng.random(288) < 0.2).astype(int), IN_RUNS),
    "what follows what is balanced": second_order,
    "groups that come again": lambda rng: (
        rng.permutation(np.arange(240) % 2),
        np.arange(240) // 5 % 4,
    ),
}


def lasting_values(rng, memory, n=N_RUN, n_groups=RUNS):
    """Return numbers that last from trial to trial of a group."""
    noise = lasting(rng, memory, n, n_groups)
    return noise[:, 0], np.repeat(np.arange(n_groups), n)


def same_values(rng):
    """Return numbers in one order for all groups, some of which differ a little."""
    values = np.tile(rng.standard_normal(20), RUNS)
    return values + rng.standard_normal(len(values)), np.repeat(np.arange(RUNS), 20)


def rising_values(rng):
    """Return numbers that rise in every group."""
    y, groups = lasting_values(rng, 0)
    return y + np.tile(np.linspace(-1, 1, N_RUN), RUNS), groups


def in_parts(rng, n, size):
    """Return numbers (n,) with a level of their own in every part of some size."""
    return rng.standard_normal(n) + np.repeat(rng.standard_normal(n // size), size)


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
    "subjects put together": (lambda rng: (in_parts(rng, 240, 20), None), "lasting"),
}
SOUND_VALUES = {
    "normal": lambda rng: lasting_values(rng, 0),
    "heavy tails": lambda rng: (rng.exponential(size=240) ** 3, IN_FORTIES),
    "no groups": lambda rng: (rng.standard_normal(100), None),
    "ratings": lambda rng: (rng.integers(1, 6, 240), IN_FORTIES),
    "levels of each run": lambda rng: (3 * in_parts(rng, 240, 40), IN_FORTIES),
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


@cache
def problems_of(name, study, seeds):
    """Return the problems in the order of each of so many designs."""
    find, _ = CASES[name]
    found = (find(np.random.default_rng([seed, study])) for seed in range(seeds))
    return [[x for x in each if x.name in NOISE] for each in found]


def n_warned(found):
    """Count the designs that are warned of."""
    return sum(any(x.severity == "warning" for x in each) for each in found)


# -------------------------------------------------------------------- what is warned of


@pytest.mark.parametrize("name", [name for name in CASES if name not in WEAK])
def test_what_can_be_decoded_from_the_order_is_warned_of_and_nothing_else(name):
    expected = CASES[name][1]
    if not expected:
        assert sum(map(bool, problems_of(name, 2, 10))) <= 1
    else:
        found = problems_of(name, 1, 4)
        assert n_warned(found) >= 3
        assert {x.name for each in found for x in each} <= {*expected.split()}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_of_400_sound_designs_hardly_any_is_warned_of(name):
    """Found are at most 2 in 100, warned of 1 in 100; of 400, 16 and 10 are beyond."""
    if not CASES[name][1]:
        found = problems_of(name, 8, 400)
        assert sum(map(bool, found)) <= 16
        assert n_warned(found) <= 10
    else:
        found = problems_of(name, 7, 200)
        assert n_warned(found) >= 200 * WEAK.get(name, 0.9) - 20


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
    found = problems_of(name, 1, 4)
    texts = [x.text for each in found for x in each if x.severity == "warning"]
    assert any(advice in text for text in texts)


@pytest.mark.parametrize("kind", ["trend", "lasting", "carry-over"])
def test_what_is_said_of_simulated_recordings_is_true(kind, monkeypatch):
    """Noise of the kind is decoded as often as is said, and else one time in twenty."""
    draw = {
        "trend": lambda rng: behaving(rng, first=0.1, last=0.9),
        "lasting": lambda rng: in_blocks(rng, 6, 8, 6),
        "carry-over": lambda rng: in_windows(rng, 2),
    }[kind]
    rng, significant = np.random.default_rng(0), []
    found = (find(*draw(rng), scheme="within_groups") for _ in range(8))
    problem = next(x for each in found for x in each if x.name == kind)
    time = np.tile(np.linspace(-1, 1, N_RUN), RUNS)
    monkeypatch.setattr(analysis, "warn_of_order", lambda *_: None)  # takes longest
    for seed in range(24):
        rng = np.random.default_rng([seed, 5])
        y, groups = draw(rng)
        X, weights = rng.standard_normal((len(y), 4)), rng.standard_normal(4)
        if kind == "lasting":
            X = lasting(rng, 0.9, p=4)
        else:
            X += np.outer(time if kind == "trend" else np.roll(y, 1), weights)
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
    values = np.sort(np.random.default_rng(0).normal(size=80))
    for sorted_values in (values, values[::-1], np.repeat([1.0, 3.0, 2.0], 10)):
        assert names(find(sorted_values, regression=True)) == ["sorted"]
    values[[3, 40]] = values[[40, 3]]
    assert names(find(values, regression=True)) != ["sorted"]
    # Runs of one class in turn, and rows put together by class of runs that have both.
    runs = np.repeat(np.arange(6), 10)
    assert "sorted" not in names(find(runs % 2, runs))
    each = np.tile(np.repeat(np.arange(6), 5), 2)
    assert "sorted" not in names(find(np.repeat([0, 1], 30), each))
    sets = check_design(np.repeat([0, 1, 0, 1], 20), train_on=np.arange(80) < 40)
    assert names(sets.problems) == ["sorted"]


def drift(seed, n=80, p=6, n_times=30):
    """Return labels in random order, and data without an effect that drift."""
    rng = np.random.default_rng(seed)
    steps = rng.standard_normal((n, p, n_times)).cumsum(axis=0)
    y = build.NAMES[rng.permutation(np.arange(n) % 2)]
    return y, rng.standard_normal(steps.shape) + 0.5 * steps


def of_epochs(X, y, rows, **options):
    epochs = build.epochs(X[rows])
    epochs.events[:, 0] = build.jittered(build.epochs(X)).events[rows, 0]
    return decode_epochs(epochs, y[rows], **options)


#: Layouts of a recording whose rows were put together by condition.
LAYOUTS = {
    "arrays": lambda X, y, rows, **o: decode_arrays(X[rows], y[rows], **o),
    "epochs": of_epochs,
}


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


# ------------------------------------------------------------------- what is looked for


def test_the_same_order_in_every_group_is_a_problem():
    rng = np.random.default_rng(1)
    for codes in (rng.permutation(np.arange(24) % 2), in_windows(rng, 2, 24, 1)[0]):
        (problem,) = find(np.tile(codes, 4), np.repeat(np.arange(4), 24))
        assert problem.name == "order"
        assert "is similar across the 4 groups" in problem.text
        # In a single group, or between trials of no group, nothing is to be compared.
        assert "order" not in names(find(codes))
    two = [rng.permutation(np.arange(30) % 2) for _ in range(2)]
    assert names(find(np.ravel(two * 3), np.repeat(np.arange(6), 30))) == ["order"]
    # Dropped trials do not hide it.
    codes = np.tile(np.random.default_rng(3).permutation(np.arange(40) % 2), 4)
    groups, kept = np.repeat(np.arange(4), 40), np.sort(rng.permutation(160)[:130])
    kept = np.union1d(kept, np.arange(0, 160, 40))
    assert find(codes[kept], groups[kept]) == []
    assert names(find(codes[kept], groups[kept], kept)) == ["order"]
    # Estimates of whole runs may be in the order of their names.
    runs = np.repeat(np.arange(6), 4)
    for order, severity in (([0, 1, 2, 3], "note"), ([1, 3, 0, 2], "warning")):
        (problem,) = check_design(np.tile(order, 6), runs).problems
        assert (problem.name, problem.severity) == ("order", severity)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cross_validate(rng.normal(size=(24, 5)), np.tile(np.arange(4), 6), groups=runs)


def test_blocks_are_a_problem_whatever_the_order_of_rows():
    rng = np.random.default_rng(4)
    for length in (4, 8):
        codes, groups = in_blocks(rng, 48 // length, length, 6)
        assert names(find(codes, groups)) == ["lasting"]
        assert names(find(codes)) == ["lasting"]
    rows = rng.permutation(len(codes))
    np.random.seed(0)  # noqa: NPY002
    found, again = find(codes, groups), find(codes[rows], groups[rows], rows)
    assert names(found) == names(again) == ["lasting"]
    orders._FOUND.clear()
    assert find(codes, groups) == found  # whatever was drawn before
    # One estimate of each block is a trial in random order.
    assert find(*in_blocks(rng, 24, 1, 6)) == []
    assert find(*in_blocks(rng, 8, 1, 12, n_classes=8)) == []
    # By chance alone 2 of 36 designs have the same order and as few changes.
    assert find(np.tile([0, 0, 1, 1], 2), np.repeat([0, 1], 4)) == []
    # Subjects of one class: nothing is exchanged within them.
    subjects = np.repeat(np.random.default_rng(0).permutation(20), 5)
    assert find(subjects % 2, subjects) == []


def test_what_was_found_is_kept_for_the_same_design_alone(monkeypatch):
    """Whatever differs, it is looked for again; what is returned may be changed."""
    codes, groups = in_blocks(np.random.default_rng(4), 4, 3, 3)
    folds, numbers = make_folds(None, codes, groups), np.arange(36)
    designs = [
        ((codes, groups, folds, "auto"), {}),
        ((1 - codes, groups, folds, "auto"), {}),
        ((codes, (groups + 1) % 3, folds, "auto"), {}),
        ((codes, None, folds, "auto"), {}),
        ((codes, groups, make_folds(4, codes), "auto"), {}),
        ((codes, groups, folds, "transitions"), {}),
        ((codes, groups, folds, "auto"), {"numbers": numbers}),
        ((codes, groups, folds, "auto"), {"numbers": numbers + (numbers > 5)}),
        ((codes, groups, folds, "auto"), {"regression": True}),
        ((codes + 0.5, groups, folds, "auto"), {"regression": True}),
    ]
    looked = []

    def look(*design):
        looked.append(design)
        return [Problem("order", "", {"design": len(looked)})]

    monkeypatch.setattr(orders, "_find", look)
    monkeypatch.setattr(orders, "_FOUND", {})
    monkeypatch.setattr(orders, "_KEPT", len(designs))
    for _ in range(2):
        for number, (given, options) in enumerate(designs, 1):
            (problem,) = find_in_order(*given, **options)
            assert problem.numbers.pop("design") == number
    assert len(looked) == len(designs)
    alike = codes.copy(), 2.0 * groups, make_folds(None, codes, groups), "auto"
    assert find_in_order(*alike)[0].numbers == {"design": 1}
    # The one that was not asked for longest is forgotten.
    find_in_order(codes, groups, folds, "trend")
    assert find_in_order(*alike)[0].numbers == {"design": 1}
    given, options = designs[1]
    assert find_in_order(*given, **options)[0].numbers == {"design": len(designs) + 2}
    assert len(orders._FOUND) == len(designs)


# ------------------------------------------------------------------- who warns, of what


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
        # In random order where they are trained with; the others follow a fixed one.
        codes, chosen = build.mixed(4, 36), build.mixed(4, 36, seed=1) == 1
        fixed, options = np.arange(144) % 36 // 18, {"groups": runs, "train_on": chosen}
        cross_validate(X, np.where(chosen, codes, fixed), **options)
    with pytest.warns(UserWarning, match="Of simulated recordings"):
        cross_validate(X, np.where(chosen, fixed, codes), **options)


def test_epochs_are_in_the_order_of_their_events():
    rng = np.random.default_rng(8)
    X, codes = rng.standard_normal((60, 3, 2)), np.repeat([0, 1], 30)
    # Rows of an array, evenly spaced: they may be sorted by class.
    for epochs in (build.epochs(X, codes), build.jittered(build.epochs(X, codes))):
        with pytest.warns(UserWarning, match="rows are sorted by class"):
            decode_epochs(epochs)
    recorded = build.jittered(build.epochs(X, rng.permutation(codes)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        decode_epochs(recorded)
        # Sorted by class after the recording.
        decode_epochs(recorded[np.argsort(recorded.events[:, 2], kind="stable")])
    y, groups = lasting_values(np.random.default_rng(0), 0.6)
    X, order = rng.standard_normal((len(y), 3, 2)), np.argsort(y)
    with pytest.warns(UserWarning, match="Of simulated recordings"):
        result = regress(X[:, :, 0], y, groups=groups)
    assert any("Of simulated recordings" in each for each in result.warnings)
    epochs = build.jittered(build.epochs(X))[order]
    with pytest.warns(UserWarning, match="Of simulated recordings"):
        decode_epochs(epochs, y[order], task="regression", cv=KFold(4))


# ------------------------------------------------------------- the scheme that mends it


def first_found(draw, number="rate", **options):
    """Return the first warning about an order, with a number, among five designs."""
    for seed in range(5):
        y, groups = draw(np.random.default_rng(seed))
        for problem in check_design(y, groups, **options).problems:
            if problem.severity == "warning" and number in problem.numbers:
                return problem, y, groups
    raise AssertionError("nothing is warned of")


@pytest.mark.parametrize(
    ("draw", "scheme"),
    [
        (lambda rng: in_blocks(rng, 12, 4, 6), "transitions"),
        (lambda rng: behaving(rng, first=0.15, last=0.85), "trend"),
    ],
    ids=["blocks", "trend"],
)
def test_a_warning_names_the_scheme_that_mends_it(draw, scheme):
    problem, y, groups = first_found(draw, "mended_by")
    numbers = problem.numbers
    assert numbers["mended_by"] == scheme
    assert numbers["mended_rate"] <= 0.065 < 0.08 < numbers["rate"]
    pattern = r"With permute='(\w+)'.*?, (\d+)% of .* \((\d+)% now\)"
    shares = [f"{100 * numbers[name]:.0f}" for name in ("mended_rate", "rate")]
    assert re.search(pattern, problem.text).groups() == (scheme, *shares)
    assert ("approximate" in problem.text) == (scheme == "trend")
    again = check_design(y, groups, permute=scheme).problems
    assert problem.name not in {x.name for x in again}


def test_a_warning_says_if_no_scheme_mends_it():
    for draw in (
        lambda rng: without_repeats(rng, 4),
        lambda rng: (np.arange(rng.integers(24, 48)) % 2, None),
    ):
        problem, *_ = first_found(draw)
        assert problem.name == "carry-over"
        assert "No scheme of permute brings this to 6% or less." in problem.text
        assert "mended_by" not in problem.numbers
    problem, *_ = first_found(lambda rng: in_blocks(rng, 12, 4, 6), n_permutations=0)
    assert "permute=" not in problem.text


# -------------------------------------------------------------------------- transitions


SCHEMES = ("transitions", "trend")
FOUR = np.repeat(np.arange(4), 12)


def stretches(labels):
    return [(code, len([*same])) for code, same in itertools.groupby(labels)]


def orbit(codes, groups):
    """Return all labellings that exchanges of lengths and rounds lead to."""

    def neighbours(labels):
        for group in np.unique(groups):
            rows = np.flatnonzero(groups == group)
            found = stretches([labels[i] for i in rows])
            first = [i for i, each in enumerate(found) if each[0] == found[0][0]]
            ends = [*first[1:], len(found)]
            rounds = [found[i:j] for i, j in zip(first, ends, strict=True)]
            others = []
            for i, j in itertools.combinations(range(len(found)), 2):
                if found[i][0] == found[j][0]:
                    other = list(found)
                    other[i], other[j] = found[j], found[i]
                    others.append(other)
            for i, j in itertools.combinations(range(len(rounds) - 1), 2):
                other = list(rounds)
                other[i], other[j] = rounds[j], rounds[i]
                others.append([*itertools.chain(*other)])
            for other in others:
                moved = list(labels)
                flat = [code for code, length in other for _ in range(length)]
                for row, code in zip(rows, flat, strict=True):
                    moved[row] = code
                yield tuple(moved)

    found, new = {tuple(codes)}, [tuple(codes)]
    while new:
        for labels in neighbours(new.pop()):
            if labels not in found:
                found.add(labels)
                new.append(labels)
    return found


def transitions(labels, groups, order=slice(None)):
    """Return how often each class follows each, by group (groups, c, c)."""
    labels, groups = np.asarray(labels)[order], np.asarray(groups)[order]
    found = np.zeros((groups.max() + 1, 4, 4), int)
    for group in np.unique(groups):
        rows = labels[groups == group]
        np.add.at(found[group], (rows[:-1], rows[1:]), 1)
    return found


@pytest.mark.parametrize("n_classes", [2, 3, 4])
def test_every_exchange_of_stretches_is_listed_once_and_drawn_equally_often(n_classes):
    rng, n_drawn = np.random.default_rng(n_classes), 0
    for case in range(30):
        n = int(rng.integers(n_classes + 4, 13))
        codes = rng.integers(0, n_classes, n)
        codes[:n_classes] = rng.permutation(n_classes)
        groups = np.arange(n) * 2 // n
        if case % 2:  # groups that come again
            groups = rng.permutation(groups)
        try:
            found = arrangements_of(
                codes, 9, folds=None, groups=groups, permute="transitions"
            ).units
        except ValueError:
            continue
        expected, labels = orbit(codes.tolist(), groups), found.all()
        assert found.count == len(expected) == len(labels)
        assert {tuple(row) for row in labels.tolist()} == expected
        assert_array_equal(labels[0], codes)
        if 1 < len(expected) < 40:
            drawn = found.draw(4000, np.random.default_rng(case))[1:]
            counts = np.unique(drawn, axis=0, return_counts=True)[1]
            assert len(counts) == len(expected)
            mean = len(drawn) / len(expected)
            chi2, dof = ((counts - mean) ** 2 / mean).sum(), len(expected) - 1
            assert chi2 < dof + 5 * np.sqrt(2 * dof) + 5
            n_drawn += 1
    assert n_drawn > 4


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("grouped", [True, False])
def test_transitions_are_kept_in_the_order_of_recording(n_classes, grouped):
    rng = np.random.default_rng(0)
    codes, mixed = rng.integers(0, n_classes, 48), rng.permutation(48)
    runs = FOUR if grouped else np.zeros(48, int)
    options = {"folds": None, "permute": "transitions", "random_state": 0}
    options |= {"groups": runs[mixed]} if grouped else {}
    labels = permute_labels(codes[mixed], 50, time=mixed, **options).labels
    in_time = labels[:, np.argsort(mixed)]
    for row in in_time:
        assert_array_equal(transitions(row, runs), transitions(codes, runs))
        for run in np.unique(runs):
            moved, given = row[runs == run], codes[runs == run]
            assert moved[0] == given[0]
            assert sorted(stretches(moved)) == sorted(stretches(given))
    assert len(np.unique(in_time, axis=0)) > 30
    # The order of rows is another one.
    others = permute_labels(codes[mixed], 50, **options).labels
    kept = [transitions(row, runs, np.argsort(mixed)) for row in others]
    assert any((each != kept[0]).any() for each in kept)


@pytest.mark.parametrize(
    ("changes", "n"),
    [
        ([[0.7, 0.3], [0.3, 0.7]], 9),
        ([[0.8, 0.2], [0.6, 0.4]], 9),
        ([[0.6, 0.3, 0.1], [0.1, 0.6, 0.3], [0.5, 0.1, 0.4]], 6),
    ],
)
def test_the_test_is_exact_for_every_labelling_of_a_markov_chain(changes, n):
    """Of all labellings, each with its probability, at most alpha have p <= alpha."""
    changes, c = np.array(changes), len(changes)
    noise = np.random.default_rng(1).standard_normal((n, 2))
    noise = lfilter([1], [1, -0.9], noise, axis=0)

    def statistic(labels):
        """Return how far classes are apart in noise that lasts, (m,)."""
        apart = 0
        for code in range(c):
            mine = labels == code
            mean = mine @ noise / np.maximum(1, mine.sum(axis=1, keepdims=True))
            apart = apart + np.linalg.norm(mean - noise.mean(axis=0), axis=1)
        return apart

    of_scheme = {"transitions": {}, "free": {}}
    for labels in itertools.product(range(c), repeat=n):
        chance = np.prod([changes[i, j] for i, j in itertools.pairwise(labels)]) / c
        codes = np.array(labels)
        for scheme, found in of_scheme.items():
            try:
                units = arrangements_of(codes, 9, folds=None, permute=scheme).units
                scores = statistic(units.all())
                p = float((scores >= scores[0] - 1e-9).mean())
            except ValueError:
                p = 1.0
            found[p] = found.get(p, 0) + chance
    worst = {
        scheme: max(sum(x for q, x in found.items() if q <= p) / p for p in found)
        for scheme, found in of_scheme.items()
    }
    assert worst["transitions"] <= 1 + 1e-9
    assert worst["free"] > 1.2


# -------------------------------------------------------------------------------- trend


def trending(codes, groups, log_q):
    return Trending(np.array(codes, np.int8), np.array(groups), ..., log_q)


def test_labels_of_a_trend_are_drawn_with_its_probabilities():
    """Of all arrangements each as often as the product of what it has at each place."""
    rng = np.random.default_rng(0)
    codes, groups = [0, 1, 1, 2, 0, 0, 1], np.array([0, 0, 0, 0, 1, 1, 1])
    log_q = log_softmax(1.5 * rng.standard_normal((7, 3)), axis=1)
    expected = {}
    for order in itertools.permutations(range(4)):
        for other in itertools.permutations((4, 5, 6)):
            labels = tuple(codes[i] for i in (*order, *other))
            expected[labels] = math.exp(log_q[np.arange(7), labels].sum())
    total = sum(expected.values())
    drawn = [trending(codes, groups, log_q).draw(9, rng)[1:] for _ in range(300)]
    rows, counts = np.unique(np.concatenate(drawn), axis=0, return_counts=True)
    assert {tuple(row) for row in rows.tolist()} <= {*expected}
    seen = dict(zip(map(tuple, rows.tolist()), counts, strict=True))
    n = sum(counts)
    for labels, weight in expected.items():
        share = weight / total
        assert abs(seen.get(labels, 0) / n - share) < 5 * np.sqrt(share / n) + 1e-9


def test_observed_labels_are_one_of_those_drawn_by_a_trend_after_few_steps(monkeypatch):
    """With true probabilities they agree with others as these do, if steps go back."""
    monkeypatch.setattr(permutation, "_STEPS", 2)
    rng, n = np.random.default_rng(0), 200
    log_q = log_softmax(np.outer(np.linspace(-1, 1, n), [0.5, -0.5]), axis=1)

    def misfit(start=None, times=400):
        """Return chi-squared of the rank of the observed labels, 9 degrees."""
        ranks = []
        for _ in range(times):
            codes = (rng.random(n) < np.exp(log_q[:, 1])).astype(int)
            units = trending(codes, np.zeros(n, int), log_q)
            if start is not None:
                units.start.extend(start(units))
            labels = units.draw(9, rng)
            agreement = (labels[:, np.newaxis] == labels).sum(axis=(1, 2))
            agreement = agreement + 1e-6 * rng.random(10)
            ranks.append((agreement[1:] > agreement[0]).sum())
        mean = times / 10
        return ((np.bincount(ranks, minlength=10) - mean) ** 2 / mean).sum()

    def no_way_back(units):
        return [units._draw_pairs(rng) for _ in range(2)], units.codes[:, np.newaxis]

    def same_way(units):
        steps, hub = no_way_back(units)
        hub = hub.copy()
        for pairs in steps:
            units._exchange(hub, pairs, rng)
        return steps, hub

    assert misfit() < 28
    assert misfit(no_way_back, 1500) > 50
    assert misfit(same_way) > 300


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_the_regression_is_that_of_scikit_learn(n_classes):
    rng = np.random.default_rng(0)
    place = np.linspace(-1, 1, 120)
    columns = np.column_stack([np.ones(120), place, place**2])
    codes = np.minimum((rng.random(120) ** 1.5 + place / 3).clip(0), 0.99) * n_classes
    codes = codes.astype(int)
    model = LogisticRegression(
        C=1 / permutation._RIDGE, fit_intercept=False, tol=1e-10, max_iter=10_000
    )
    expected = model.fit(columns, codes).predict_proba(columns)
    if n_classes == 2:  # one column of weights there, of two classes here
        model.C = 2 / permutation._RIDGE
        expected = model.fit(columns, codes).predict_proba(columns)
    found = np.exp(permutation._fit_logistic(columns, codes))
    assert_allclose(found, expected, rtol=0, atol=1e-5)
    # Extreme trends have finite probabilities.
    columns = np.vander(np.linspace(-1, 1, 40), 3)
    for codes in (np.arange(40) * n_classes // 40, np.arange(40) % n_classes):
        log_q = permutation._fit_logistic(columns, codes)
        assert np.isfinite(log_q).all()
        assert_allclose(np.exp(log_q).sum(axis=1), 1, rtol=1e-9)
        again = permutation._fit_logistic(columns[::-1], codes[::-1])[::-1]
        assert_allclose(log_q, again, rtol=0, atol=1e-6)


def test_a_trend_is_followed_and_class_counts_stay():
    rng = np.random.default_rng(0)
    place = np.tile(np.linspace(0, 1, 12), 4)
    codes = (rng.random(48) < 0.05 + 0.9 * place).astype(int)
    mixed = rng.permutation(48)
    options = {"permute": "trend", "random_state": 0, "groups": FOUR[mixed]}
    options["time"] = mixed
    found = permute_labels(codes[mixed], 400, folds=None, **options)
    labels = found.labels[:, np.argsort(mixed)]
    assert not found.exact
    for run in range(4):
        counts = labels[:, FOUR == run].sum(axis=1)
        assert (counts == counts[0]).all()
    slope = (labels - labels.mean(1, keepdims=True)) @ (place - 0.5)
    assert abs(slope[1:].mean() - slope[0]) < 1.5
    free = permute_labels(codes, 400, folds=None, groups=FOUR, random_state=0).labels
    assert abs(((free - free.mean()) @ (place - 0.5))[1:].mean()) < 0.5 < slope[0] / 2


def test_a_trend_over_the_recording_is_that_of_time_not_of_names_of_groups():
    """Whatever runs are called, and whatever the order of rows."""
    rng, n = np.random.default_rng(0), 96
    codes = (rng.random(n) < np.linspace(0.1, 0.9, n)).astype(int)
    runs, mixed = np.repeat([0, 1, 2, 3], 24), rng.permutation(n)
    options = {"folds": None, "permute": "trend"}
    found = [
        arrangements_of(codes[rows], 9, groups=names[runs[rows]], time=rows, **options)
        for names in (np.arange(4), np.array(["run 2", "run 10", "run 1", "run 3"]))
        for rows in (np.arange(n), mixed)
    ]
    first, second, third, fourth = (each.units.log_q for each in found)
    for same in (second[np.argsort(mixed)], third, fourth[np.argsort(mixed)]):
        assert_allclose(first, same, rtol=0, atol=1e-9)


# ------------------------------------------------------------------------ few, and none


@pytest.mark.parametrize("scheme", SCHEMES)
def test_labels_do_not_depend_on_batches(scheme, monkeypatch):
    codes = np.random.default_rng(0).integers(0, 3, 48)
    options = {"folds": None, "groups": FOUR, "permute": scheme, "random_state": 0}
    expected = permute_labels(codes, 50, **options).labels
    monkeypatch.setattr(memory, "_BATCH", 7 * 48)
    found = permute_labels(codes, 50, **options).labels
    assert_array_equal(found, expected)


def test_labels_that_need_other_folds_are_drawn_again():
    """A number of folds keeps every class in every training set, by its rule."""
    codes = np.array([0, 0, 1, 0, 1, 0, 0, 0, 1, 0, 0, 0])
    folds = make_folds(3, codes)
    assert folds.rule.may_fail(codes)
    for scheme in SCHEMES:
        options = {"permute": scheme, "random_state": 0}
        found = permute_labels(codes, 15, folds=folds, **options)
        assert folds.rule.keeps(found.labels).all()
        assert len(found.labels) > 8


def test_few_arrangements_are_listed_and_counted():
    codes = np.array([0, 0, 1, 0, 1, 1, 1, 0])  # lengths 2 1 1 and 1 3
    folds = make_folds(4, codes)
    with pytest.warns(UserWarning, match=r"only 6 .*\(permute='transitions'\): no p-v"):
        found = permute_labels(codes, 99, folds=folds, permute="transitions")
    assert found.exact
    assert len(found.labels) == 6
    with pytest.warns(UserWarning, match="only the luck of the draw"):
        found = permute_labels([0, 1, 0, 1, 0], 99, folds=None, permute="trend")
    assert not found.exact
    assert len(found.labels) == 100
    with pytest.raises(ValueError, match="stretches of a class are equally long"):
        permute_labels(np.arange(24) % 3, 99, folds=None, permute="transitions")
    # Other folds or groups would not help: they do not make stretches.
    labels = np.repeat([0, 1, 0, 1, 0, 1], [3, 4, 5, 4, 3, 5])
    problems = check_design(labels, None, 3, permute="transitions").problems
    (few,) = [problem for problem in problems if problem.name == "few"]
    assert few.numbers["arrangements"] == 9
    assert "1/9. Stretches have to be many" in few.text
    assert "folds" not in few.text


@pytest.mark.parametrize("scheme", SCHEMES)
def test_sorted_labels_averages_and_numbers_are_refused(scheme):
    for codes, groups in (
        (np.repeat([0, 1], 12), None),
        (np.tile(np.repeat([0, 1], 6), 4), FOUR),
        (np.tile(np.arange(12), 4), FOUR),
    ):
        text = rf"permute='{scheme}' takes labels in the order of recording, and here e"
        with pytest.raises(ValueError, match=text):
            permute_labels(codes, 99, folds=None, groups=groups, permute=scheme)
        problems = check_design(codes, groups, permute=scheme).problems
        severities = {x.name: x.severity for x in problems}
        assert severities["exchange"] == "error"
    X, y = np.random.default_rng(0).standard_normal((48, 3)), np.arange(48) // 2 % 2
    for targets, options, text in (
        (y, {"average": 2}, f"'{scheme}' takes single trials in the order"),
        (y, {"average": 2, "n_repeats": 2}, "cannot be combined with regrouped trials"),
        (X[:, 0], {"task": "regression"}, f"'{scheme}' is for classes, and the targe"),
    ):
        options |= {"n_permutations": 9, "permute": scheme, "cv": 4}
        with pytest.raises(ValueError, match=text):
            decode_arrays(X[:, :, None], targets, **options)


# ------------------------------------------------------------- results by these schemes


def markov(seed=0):
    """Return trials (48, 5, 2) of two classes that repeat, and their labels."""
    rng = np.random.default_rng(seed)
    codes = repeating(rng, 0.8, 12, 4)[0]
    X = rng.standard_normal((48, 5, 2))
    X[:, 0] += codes[:, None]
    return X, build.NAMES[codes]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("scheme", SCHEMES)
def test_verify_draws_the_same_labels_from_the_record(scheme, tmp_path):
    X, y = markov()
    result = decode_arrays(
        X, y, groups=FOUR, permute=scheme, n_permutations=30, random_state=3
    )
    result.save(tmp_path / "result.h5")
    found = verify(load_result(tmp_path / "result.h5"), X, y, groups=FOUR)
    assert found.ok
    assert "cells of permuted labels" in str(found)
    result.parameters["permute"] = result.options["permute"] = "within_groups"
    result.save(tmp_path / "forged.h5")
    forged = verify(load_result(tmp_path / "forged.h5"), X, y, groups=FOUR)
    assert not forged.ok


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_methods_say_what_was_exchanged_and_cite_it():
    X, y = markov()
    options = {"n_permutations": 30, "random_state": 0, "groups": FOUR}
    for scheme, texts in {
        "transitions": (
            "lengths of stretches of equal labels, among those of the same class (and ",
            "number of transitions of each kind (Diaconis & Freedman, 1980)",
        ),
        "trend": (
            "trials of the same group, with probabilities from a logistic",
            "(an approximate test; Berrett et al., 2020)",
            "10.1111/rssb.12340",
        ),
    }.items():
        said = methods_text(decode_arrays(X, y, permute=scheme, **options))
        for text in texts:
            assert text in said


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("scheme", SCHEMES)
def test_epochs_that_were_sorted_are_taken_in_the_order_of_their_events(scheme):
    X, y = markov()
    recorded = build.jittered(build.epochs(X))
    rows = np.argsort(y, kind="stable")
    stacked = build.epochs(X[rows])
    stacked.events[:, 0] = recorded.events[rows, 0]
    options = {"groups": FOUR, "permute": scheme, "n_permutations": 30}
    options |= {"random_state": 0, "reg": 0.1}
    one = decode_epochs(recorded, y, **options)
    options["groups"] = FOUR[rows]
    other = decode_epochs(stacked, y[rows], **options)
    if scheme == "transitions":
        assert_allclose(one.null, other.null, rtol=0, atol=1e-12)
    assert_allclose(one.scores, other.scores, rtol=0, atol=1e-12)
    assert np.abs(one.pvalues() - other.pvalues()).max() < 0.25


@pytest.mark.slow
def test_noise_that_lasts_is_significant_one_time_in_twenty():
    """Of labels that repeat; by default it is so in every tenth recording or more."""
    found = {"auto": 0, "transitions": 0}
    for seed in range(300):
        rng = np.random.default_rng([seed, 9])
        y, groups = repeating(rng, 0.7, 24, 6)
        noise = rng.standard_normal((6, 24, 10))
        X = lfilter([1], [1, -0.9], noise, axis=1).reshape(144, 10)
        options = {"groups": groups, "n_permutations": 99, "reg": 0.1}
        options |= {"scoring": "roc_auc", "random_state": seed}
        for scheme in found:
            found[scheme] += (
                cross_validate(X, y, permute=scheme, **options).pvalues() <= 0.05
            )
    assert found["transitions"] <= 300 * 0.08
    assert found["auto"] > found["transitions"]
