"""Orders of trials that let time or the trial before be decoded, and those that do not.

Every kind of design that gives wrong p-values is warned of, with what to do; of 2000
sound designs of a kind none is.
"""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chisquare
from sklearn.model_selection import KFold

import build
from mvpa_kfda import (
    check_design,
    cross_validate,
    decode_arrays,
    decode_epochs,
    decode_regions,
    generalize_arrays,
    regress,
)
from mvpa_kfda.decoding import orders
from mvpa_kfda.decoding.orders import find_in_values, find_problems
from test_design import balanced_in_pairs, in_groups, shuffled

RUNS, N_RUN = 6, 48


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
        return np.array(path[::-1])

    return in_groups(draw, n_groups)


BAD = {
    "share from .3 to .7 in runs": (behaving, "trend"),
    "the same, half as many": (lambda rng: behaving(rng, 24), "trend"),
    "the same, twice as many": (lambda rng: behaving(rng, 96), "trend"),
    "share from .2 to .8 in runs": (
        lambda rng: behaving(rng, first=0.2, last=0.8),
        "trend",
    ),
    "share from .3 to .7 in a recording": (
        lambda rng: (behaving(rng, RUNS * N_RUN, 1)[0], None),
        "trend",
    ),
    "balanced in pairs": (
        lambda rng: balanced_in_pairs(rng, N_RUN, RUNS),
        "transitions",
    ),
    "balanced in fours": (lambda rng: in_windows(rng, 4, N_RUN, RUNS), "transitions"),
    "two classes in turn": (
        lambda rng: (np.arange(rng.integers(24, 48)) % 2, None),
        "transitions",
    ),
    "no repeats, 3 classes": (lambda rng: without_repeats(rng, 3), "transitions"),
    "no repeats, 4 classes": (lambda rng: without_repeats(rng, 4), "transitions"),
    "no repeats, 8 classes": (lambda rng: without_repeats(rng, 8), "transitions"),
    "one class follows another": (followed, "transitions"),
    "repeats at .6": (lambda rng: repeating(rng, 0.6), "repeats"),
    "repeats at .65": (lambda rng: repeating(rng, 0.65), "repeats"),
    "subjects put together, .3 or .7": (put_together, "parts"),
    "the same, 20 trials each": (lambda rng: put_together(rng, n=20), "parts"),
    "patients and controls, groups are runs": (patients, "subjects"),
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


BAD_VALUES = {
    "lasting, .3": (lambda rng: lasting_values(rng, 0.3), "lasting"),
    "lasting, .5": (lambda rng: lasting_values(rng, 0.5), "lasting"),
    "lasting, .5, 60 trials": (lambda rng: lasting_values(rng, 0.5, 60, 1), "lasting"),
    "lasting, .7, 60 trials": (lambda rng: lasting_values(rng, 0.7, 60, 1), "lasting"),
    "lasting, .5, no groups": (
        lambda rng: (lasting_values(rng, 0.5, 240, 1)[0], None),
        "lasting",
    ),
    "rising in groups": (rising_values, "trend"),
    "the same in all groups": (same_values, "order"),
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


def of_pairs(options):
    """Return a function of a generator that draws a design and looks for problems."""

    def find(rng):
        y, groups, chosen = seen_and_imagined(rng, **options)
        return check_design(y, groups, train_on=chosen).problems

    return find


def cases():
    """Yield the name, what finds problems in a drawn design, and which one there is."""
    for name, (draw, expected) in BAD.items():
        yield name, lambda rng, draw=draw: find_problems(*draw(rng)), expected
    for name, (draw, expected) in BAD_VALUES.items():
        yield name, lambda rng, draw=draw: find_in_values(*draw(rng)), expected
    for name, draw in SOUND.items():
        yield name, lambda rng, draw=draw: find_problems(*draw(rng)), None
    for name, draw in SOUND_VALUES.items():
        yield (
            f"numbers, {name}",
            lambda rng, draw=draw: find_in_values(*draw(rng)),
            None,
        )
    for name, (options, bad) in PAIRS.items():
        yield f"pairs, {name}", of_pairs(options), "pairs" if bad else None


CASES = {name: case for name, *case in cases()}
#: Of these less than nine in ten are found.
WEAK = {
    "share from .3 to .7 in runs": 0.4,
    "the same, half as many": 0.08,
    "share from .2 to .8 in runs": 0.8,
    "share from .3 to .7 in a recording": 0.4,
    "lasting, .3": 0.65,
    "lasting, .5, 60 trials": 0.2,
    "lasting, .7, 60 trials": 0.75,
    "subjects put together": 0.85,
    "balanced in fours": 0.4,
    "repeats at .6": 0.25,
    "repeats at .65": 0.78,
    "the same, 20 trials each": 0.6,
}


def count_warned(find, seeds, study):
    """Count the designs in which something is found."""
    return sum(bool(find(np.random.default_rng([seed, study]))) for seed in seeds)


# ------------------------------------------------------------------ what is warned of


@pytest.mark.parametrize("name", CASES)
def test_what_can_be_decoded_from_the_order_is_warned_of_and_nothing_else(name):
    find, expected = CASES[name]
    n = 10
    if expected is None:
        assert count_warned(find, range(n), 1) == 0
    elif name not in WEAK:
        assert count_warned(find, range(n), 2) >= 8


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_none_of_2000_sound_designs_is_warned_of(name):
    find, expected = CASES[name]
    if expected is None:
        assert count_warned(find, range(2000), 8) == 0
    else:
        share = WEAK.get(name, 0.9)
        assert count_warned(find, range(200), 7) >= 200 * share - 20


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("the same, twice as many", "Pass the position in the group and its square"),
        ("share from .3 to .7 in a recording", "Pass the position in the recording"),
        ("no repeats, 4 classes", "pass the class of the previous trial"),
        ("repeats at .65", "decode the mean of each stretch of one class"),
        ("subjects put together, .3 or .7", "Pass them as groups"),
        ("patients and controls, groups are runs", "Pass the subjects as groups"),
        ("pairs, one after the other", "Pass groups that contain both"),
        ("lasting, .5", "Predict the difference from the previous target"),
        ("the same in all groups", "pass the position and its square as confounds"),
    ],
)
def test_a_warning_says_what_to_do(name, advice):
    find, expected = CASES[name]
    designs = (find(np.random.default_rng(seed)) for seed in range(40))
    found = next(x for problems in designs for x in problems if x.name == expected)
    assert advice in found.text
    assert found.severity == "warning"


def test_a_weak_trend_of_labels_that_subjects_give_is_a_note_of_the_design():
    names, severities = [], set()
    for seed in range(20):
        found = check_design(*behaving(np.random.default_rng(seed))).problems
        names += [each.name for each in found]
        severities |= {each.severity for each in found if each.name == "trend"}
    assert names.count("trend") >= 14
    assert severities == {"warning", "note"}
    notes = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        assert check_design(*shuffled(rng, 24, 4)).problems == []
        found = check_design(rng.integers(2, size=96), np.arange(96) // 24).problems
        notes += "trend" in [each.name for each in found]
    assert notes <= 2  # of 40 at 0.005, three or more in 1 of 900 such tests


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
    names = ["sorted"]
    assert [each.name for each in find_problems(codes, groups)] == names
    assert [each.name for each in find_in_values(codes + 0.5, groups)] == names
    mixed = np.random.default_rng(0).permutation(len(codes))
    moved = None if groups is None else groups[mixed]
    found = find_problems(codes[mixed], moved, numbers=mixed)
    assert [each.name for each in found] == names
    if groups is None:
        assert find_problems(codes, numbers=mixed) == []


def test_sorted_rows_of_runs_and_sets_are_told_apart():
    sets, chosen = np.repeat([0, 1, 0, 1], 20), np.arange(80) < 40
    (found,) = check_design(sets, train_on=chosen).problems
    assert found.name == "sorted"
    # Runs of one class in turn, and rows put together by class of runs that have both.
    runs = np.repeat(np.arange(6), 10)
    assert find_problems(runs % 2, runs) == []
    kinds, each = np.repeat([0, 1], 30), np.tile(np.repeat(np.arange(6), 5), 2)
    assert "sorted" not in [x.name for x in find_problems(kinds, each)]
    values = np.sort(np.random.default_rng(0).normal(size=80))
    for sorted_values in (values, values[::-1], np.repeat([1.0, 3.0, 2.0], 10)):
        (found,) = find_in_values(sorted_values)
        assert found.name == "sorted"
    values[[3, 40]] = values[[40, 3]]
    assert [x.name for x in find_in_values(values)] != ["sorted"]


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


# --------------------------------------------------------------------------- the sums


def test_sums_are_those_of_plain_loops():
    rng = np.random.default_rng(0)
    codes, groups = without_repeats(rng, 3, 20, 4)
    codes[10] = codes[9]
    (problem,) = find_problems(codes, groups)
    repeats = sum(
        codes[i] == codes[i - 1] and groups[i] == groups[i - 1] for i in range(1, 80)
    )
    assert problem.numbers["repeats"] == repeats == 1
    y, groups = rising_values(rng)
    time = np.tile(np.linspace(-1, 1, N_RUN), RUNS)
    ranks = y.argsort().argsort()
    means = [ranks[groups == g].mean() for g in range(RUNS)]
    ranks = ranks - np.repeat(means, N_RUN)
    (problem,) = find_in_values(y, groups)
    r = np.corrcoef(time, ranks)[0, 1]
    np.testing.assert_allclose(problem.numbers["correlation"], r, rtol=1e-10)
    codes, groups = behaving(rng, 96)
    (problem,) = find_problems(codes, groups)
    r = np.corrcoef(np.tile(np.linspace(-1, 1, 96), RUNS), codes)[0, 1]
    np.testing.assert_allclose(problem.numbers["eta_squared"], r**2, rtol=1e-10)


def test_parts_are_compared_by_chi_square():
    labels = np.random.default_rng(0).integers(3, size=(2, 60))
    labels[1] = labels[0][::-1]
    part = np.arange(60) * 4 // 60
    shares = np.bincount(labels[0]) / 60
    members = (labels == np.arange(3)[:, None, None]) - shares[:, None, None]
    found = orders._chi_square(members, part, shares)
    counts = np.array(
        [np.bincount(each, minlength=3) for each in labels[0].reshape(4, 15)]
    )
    x = chisquare(counts.ravel(), np.tile(15 * shares, 4)).statistic
    # The cube root of chi-square (Wilson & Hilferty, 1931), with 3 * 2 degrees.
    expected = (np.cbrt(x / 6) - (1 - 2 / 54)) / np.sqrt(2 / 54)
    np.testing.assert_allclose(found, expected, rtol=1e-10)


# ------------------------------------------------------------------- who warns, of what


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
    with pytest.warns(UserWarning, match="are correlated from trial to trial"):
        result = regress(X[:, :, 0], y, groups=groups)
    assert any("are correlated from trial to trial" in each for each in result.warnings)
    epochs = build.jittered(build.epochs(X))
    order = np.argsort(y)
    with pytest.warns(UserWarning, match="are correlated from trial to trial"):
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
        with pytest.warns(UserWarning, match="class of a trial equals that of the"):
            found = cross_validate(X, y, **options)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            names = np.array(["a", "b", "none"])[before]
            cleaned = cross_validate(X, y, confounds=names, **options)
        p.append([found.pvalues(), cleaned.pvalues()])
    found, cleaned = (np.array(p) <= 0.05).sum(axis=0)
    assert found >= 9
    assert cleaned <= 3  # of 12 at 0.05, four or more in 2 of 1000 such tests
