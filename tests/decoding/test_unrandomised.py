"""Schemes of permutation for labels that nobody randomised: transitions and trend."""

import itertools
import math
import re

import mne
import numpy as np
import pytest
from scipy.signal import lfilter
from scipy.special import log_softmax
from sklearn.linear_model import LogisticRegression

from mvpa_kfda import (
    check_design,
    cross_validate,
    decode_arrays,
    decode_epochs,
    load_result,
    methods_text,
    regress,
    verify,
)
from mvpa_kfda.cli.main import main
from mvpa_kfda.inference import permutation
from mvpa_kfda.inference.permutation import Trending, arrangements_of, permute_labels
from mvpa_kfda.kfda.folds import make_folds
from mvpa_kfda.utils import memory
from tests import bids_data, build
from tests.decoding.test_orders import in_blocks, repeating, without_repeats

SCHEMES = ("transitions", "trend")
RUNS = np.repeat(np.arange(4), 12)


def chain(rng, n, changes):
    """Return labels (n,) of a Markov chain by its probabilities (c, c)."""
    labels = [rng.integers(len(changes))]
    while len(labels) < n:
        labels.append(rng.choice(len(changes), p=changes[labels[-1]]))
    return np.array(labels)


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


# ------------------------------------------------------------------------- transitions


@pytest.mark.parametrize("n_classes", [2, 3, 4])
def test_every_exchange_of_stretches_is_listed_once_and_drawn_equally_often(n_classes):
    rng, n_drawn = np.random.default_rng(n_classes), 0
    for case in range(60):
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
        np.testing.assert_array_equal(labels[0], codes)
        if 1 < len(expected) < 40:
            drawn = found.draw(4000, np.random.default_rng(case))[1:]
            counts = np.unique(drawn, axis=0, return_counts=True)[1]
            assert len(counts) == len(expected)
            mean = len(drawn) / len(expected)
            chi2, dof = ((counts - mean) ** 2 / mean).sum(), len(expected) - 1
            assert chi2 < dof + 5 * np.sqrt(2 * dof) + 5
            n_drawn += 1
    assert n_drawn > 8


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("grouped", [True, False])
def test_transitions_are_kept_in_the_order_of_recording(n_classes, grouped):
    rng = np.random.default_rng(0)
    codes = rng.integers(0, n_classes, 48)
    groups = RUNS if grouped else None
    mixed = rng.permutation(48)
    options = {"permute": "transitions", "random_state": 0, "time": mixed}
    if grouped:
        options["groups"] = groups[mixed]
    labels = permute_labels(codes[mixed], 50, folds=None, **options).labels
    in_time = labels[:, np.argsort(mixed)]
    runs = RUNS if grouped else np.zeros(48, int)
    for row in in_time:
        np.testing.assert_array_equal(transitions(row, runs), transitions(codes, runs))
        for run in np.unique(runs):
            assert row[runs == run][0] == codes[runs == run][0]
            assert sorted(stretches(row[runs == run])) == sorted(
                stretches(codes[runs == run])
            )
    assert len(np.unique(in_time, axis=0)) > 30
    options.pop("time")  # the order of rows is another one
    others = permute_labels(codes[mixed], 50, folds=None, **options).labels
    kept = [transitions(row, runs, np.argsort(mixed)) for row in others]
    assert any((each != kept[0]).any() for each in kept)


@pytest.mark.parametrize(
    ("changes", "n"),
    [
        ([[0.7, 0.3], [0.3, 0.7]], 10),
        ([[0.8, 0.2], [0.6, 0.4]], 10),
        ([[0.6, 0.3, 0.1], [0.1, 0.6, 0.3], [0.5, 0.1, 0.4]], 7),
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
            mean = (
                (labels == code)
                @ noise
                / np.maximum(1, (labels == code).sum(1))[:, None]
            )
            apart = apart + np.linalg.norm(mean - noise.mean(0), axis=1)
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


# ------------------------------------------------------------------------------- trend


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
    drawn = [trending(codes, groups, log_q).draw(9, rng)[1:] for _ in range(600)]
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
    rng, n = np.random.default_rng(0), 400
    log_q = log_softmax(np.outer(np.linspace(-1, 1, n), [0.5, -0.5]), axis=1)

    def misfit(start=None, times=600):
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
    assert misfit(no_way_back, 2000) > 80
    assert misfit(same_way) > 500


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
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)


def test_a_trend_is_followed_and_class_counts_stay():
    rng = np.random.default_rng(0)
    place = np.tile(np.linspace(0, 1, 12), 4)
    codes = (rng.random(48) < 0.05 + 0.9 * place).astype(int)
    mixed = rng.permutation(48)
    options = {"permute": "trend", "random_state": 0, "groups": RUNS[mixed]}
    options["time"] = mixed
    found = permute_labels(codes[mixed], 400, folds=None, **options)
    labels = found.labels[:, np.argsort(mixed)]
    assert not found.exact
    for run in range(4):
        counts = labels[:, RUNS == run].sum(axis=1)
        assert (counts == counts[0]).all()
    slope = (labels - labels.mean(1, keepdims=True)) @ (place - 0.5)
    assert abs(slope[1:].mean() - slope[0]) < 1.5
    free = permute_labels(codes, 400, folds=None, groups=RUNS, random_state=0).labels
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
        np.testing.assert_allclose(first, same, rtol=0, atol=1e-9)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_extreme_trends_have_finite_probabilities(n_classes):
    for codes in (np.arange(40) * n_classes // 40, np.arange(40) % n_classes):
        columns = np.vander(np.linspace(-1, 1, 40), 3)
        log_q = permutation._fit_logistic(columns, codes)
        assert np.isfinite(log_q).all()
        np.testing.assert_allclose(np.exp(log_q).sum(axis=1), 1, rtol=1e-9)
        again = permutation._fit_logistic(columns[::-1], codes[::-1])[::-1]
        np.testing.assert_allclose(log_q, again, rtol=0, atol=1e-6)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_labels_do_not_depend_on_batches(scheme, monkeypatch):
    codes = np.random.default_rng(0).integers(0, 3, 48)
    options = {"folds": None, "groups": RUNS, "permute": scheme, "random_state": 0}
    expected = permute_labels(codes, 50, **options).labels
    monkeypatch.setattr(memory, "_BATCH", 7 * 48)
    found = permute_labels(codes, 50, **options).labels
    np.testing.assert_array_equal(found, expected)


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


# ----------------------------------------------------------------------- few, and none


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


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize(
    ("codes", "groups"),
    [
        (np.repeat([0, 1], 12), None),
        (np.tile(np.repeat([0, 1], 6), 4), RUNS),
        (np.tile(np.arange(12), 4), RUNS),
    ],
)
def test_sorted_labels_have_no_order(scheme, codes, groups):
    text = rf"permute='{scheme}' takes labels in the order of recording, and here each"
    with pytest.raises(ValueError, match=text):
        permute_labels(codes, 99, folds=None, groups=groups, permute=scheme)
    (found,) = [
        x
        for x in check_design(codes, groups, permute=scheme).problems
        if x.name == "exchange"
    ]
    assert found.severity == "error"


def test_what_has_one_arrangement_is_refused():
    with pytest.raises(ValueError, match="stretches of a class are equally long"):
        permute_labels(np.arange(24) % 3, 99, folds=None, permute="transitions")


@pytest.mark.parametrize("scheme", SCHEMES)
def test_averages_and_numbers_are_refused(scheme):
    X, y = np.random.default_rng(0).standard_normal((48, 3)), np.arange(48) // 2 % 2
    options = {"n_permutations": 9, "permute": scheme}
    with pytest.raises(
        ValueError, match=f"'{scheme}' takes single trials in the order"
    ):
        cross_validate(X, y, cv=4, average=2, **options)
    with pytest.raises(ValueError, match="cannot be combined with regrouped trials"):
        cross_validate(X, y, cv=4, average=2, n_repeats=2, **options)
    with pytest.raises(ValueError, match=f"'{scheme}' is for classes, and the targets"):
        regress(X, X[:, 0], **options)
    for task in ("classification", "regression"):
        target = y if task == "classification" else X[:, 0]
        decode_arrays(X[:, :, None], target, task=task, n_permutations=0)


# ---------------------------------------------------------------------------- entries


def data(seed=0, n_classes=2):
    rng = np.random.default_rng(seed)
    codes = np.concatenate(
        [chain(rng, 12, 0.4 / n_classes + 0.6 * np.eye(n_classes)) for _ in range(4)]
    )
    X = rng.standard_normal((48, 5, 2))
    X[:, 0] += codes[:, None]
    return X, build.NAMES[codes]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("scheme", SCHEMES)
def test_verify_draws_the_same_labels_from_the_record(scheme, tmp_path):
    X, y = data()
    result = decode_arrays(
        X, y, groups=RUNS, permute=scheme, n_permutations=30, random_state=3
    )
    result.save(tmp_path / "result.h5")
    found = verify(load_result(tmp_path / "result.h5"), X, y, groups=RUNS)
    assert found.ok
    assert "cells of permuted labels" in str(found)
    result.parameters["permute"] = result.options["permute"] = "within_groups"
    result.save(tmp_path / "forged.h5")
    forged = verify(load_result(tmp_path / "forged.h5"), X, y, groups=RUNS)
    assert not forged.ok


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_methods_say_what_was_exchanged_and_cite_it():
    X, y = data()
    options = {"n_permutations": 30, "random_state": 0, "groups": RUNS}
    texts = [
        methods_text(decode_arrays(X, y, permute=scheme, **options))
        for scheme in SCHEMES
    ]
    assert (
        "lengths of stretches of equal labels, among those of the same class (and t"
        in (texts[0])
    )
    assert "number of transitions of each kind (Diaconis & Freedman, 1980)" in texts[0]
    assert "trials of the same group, with probabilities from a logistic" in texts[1]
    assert "(an approximate test; Berrett et al., 2020)" in texts[1]
    assert "10.1111/rssb.12340" in texts[1]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("scheme", SCHEMES)
def test_epochs_that_were_sorted_are_taken_in_the_order_of_their_events(scheme):
    X, y = data()
    recorded = build.jittered(build.epochs(X))
    rows = np.argsort(y, kind="stable")
    stacked = build.epochs(X[rows])
    stacked.events[:, 0] = recorded.events[rows, 0]
    options = {"groups": RUNS, "permute": scheme, "n_permutations": 30}
    options |= {"random_state": 0, "reg": 0.1}
    one = decode_epochs(recorded, y, **options)
    options["groups"] = RUNS[rows]
    other = decode_epochs(stacked, y[rows], **options)
    if scheme == "transitions":
        np.testing.assert_allclose(one.null, other.null, rtol=0, atol=1e-12)
    np.testing.assert_allclose(one.scores, other.scores, rtol=0, atol=1e-12)
    assert np.abs(one.pvalues() - other.pvalues()).max() < 0.25


@pytest.mark.filterwarnings("ignore")
def test_commands_and_datasets_take_the_schemes(tmp_path):
    root = bids_data.write_epochs(tmp_path / "pipeline", ("01",))
    path = root / "sub-01" / "eeg" / "sub-01_task-faces_proc-clean_epo.fif"
    epochs = mne.read_epochs(path, verbose="error")
    few, words = {"n_permutations": 5, "random_state": 0}, ["--n-permutations", "5"]
    out, given = tmp_path / "out", ["--permute", "transitions", *words]
    assert main(["bids", str(root), str(out), "participant", *given]) == 0
    result = load_result(*out.rglob("*.h5"))
    expected = decode_epochs(epochs, groups="run", permute="transitions", **few)
    assert result.parameters["permute"] == "transitions"
    np.testing.assert_array_equal(result.null, expected.null)
    out, given = tmp_path / "one", ["--permute", "trend", *words]
    assert main(["epochs", str(path), *given, "--out", str(out)]) == 0
    expected = decode_epochs(epochs, permute="trend", **few)
    np.testing.assert_array_equal(load_result(*out.glob("*.h5")).null, expected.null)


# ------------------------------------------------------------------- what is said of it


def found_in(draw, number="rate", **options):
    """Return the first warning about an order, with a number, among five designs."""
    for seed in range(5):
        y, groups = draw(np.random.default_rng(seed))
        for problem in check_design(y, groups, **options).problems:
            if problem.severity == "warning" and number in problem.numbers:
                return problem, y, groups
    raise AssertionError("nothing is warned of")


def rising(rng):
    share = np.linspace(0.15, 0.85, 48)
    return np.concatenate([rng.random(48) < share for _ in range(6)]).astype(int), (
        np.repeat(np.arange(6), 48)
    )


@pytest.mark.parametrize(
    ("draw", "scheme"),
    [
        (lambda rng: in_blocks(rng, 12, 4, 6), "transitions"),
        (rising, "trend"),
    ],
    ids=["blocks", "trend"],
)
def test_a_warning_names_the_scheme_that_mends_it(draw, scheme):
    problem, y, groups = found_in(draw, "mended_by")
    numbers = problem.numbers
    assert numbers["mended_by"] == scheme
    assert numbers["mended_rate"] <= 0.065 < 0.08 < numbers["rate"]
    pattern = r"With permute='(\w+)'.*?, (\d+)% of .* \((\d+)% now\)"
    found = re.search(pattern, problem.text)
    assert found.groups() == (
        scheme,
        f"{100 * numbers['mended_rate']:.0f}",
        f"{100 * numbers['rate']:.0f}",
    )
    assert ("approximate" in problem.text) == (scheme == "trend")
    again = check_design(y, groups, permute=scheme).problems
    assert problem.name not in {x.name for x in again}


def test_a_warning_says_if_no_scheme_mends_it():
    for draw in (
        lambda rng: without_repeats(rng, 4),
        lambda rng: (np.arange(rng.integers(24, 48)) % 2, None),
    ):
        problem, *_ = found_in(draw)
        assert problem.name == "carry-over"
        assert "No scheme of permute brings this to 6% or less." in problem.text
        assert "mended_by" not in problem.numbers


def test_nothing_is_said_of_schemes_without_permutations():
    problem, *_ = found_in(lambda rng: in_blocks(rng, 12, 4, 6), n_permutations=0)
    assert "permute=" not in problem.text


# --------------------------------------------------------------------------- calibrated


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


def test_what_few_arrangements_need_is_said():
    """Other folds or groups would not help: they do not make stretches."""
    labels = np.repeat([0, 1, 0, 1, 0, 1], [3, 4, 5, 4, 3, 5])
    design = check_design(labels, cv=3, permute="transitions", n_permutations=99)
    (few,) = [problem for problem in design.problems if problem.name == "few"]
    assert few.numbers["arrangements"] == 9
    assert "1/9. Stretches have to be many" in few.text
    assert "folds" not in few.text
