"""What holds at every entry point alike.

A new entry is one line in ENTRIES, a new argument that must be refused one line in
REFUSED. The oracle of `reference` trains anew for every position, fold and labelling.
"""

import inspect
import os
import tempfile
import warnings
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.linear_model import LinearRegression
from sklearn.metrics import r2_score
from sklearn.metrics.pairwise import (
    linear_kernel,
    rbf_kernel,
)
from sklearn.model_selection import (
    KFold,
    LeaveOneOut,
    ShuffleSplit,
    StratifiedKFold,
)
from sklearn.preprocessing import QuantileTransformer, StandardScaler

from mvpa_kfda import (
    RBF,
    DegreesOfFreedom,
    EmpiricalMap,
    GraphSmooth,
    KernelFDA,
    Nystrom,
    Penalty,
    Polynomial,
    Ridge,
    Shrinkage,
    TimeResult,
    Tuned,
    cross_validate,
    decode_epochs,
    decode_regions,
    generalize_arrays,
    load_result,
)
from mvpa_kfda.decoding.positions import SubsetPositions
from mvpa_kfda.decoding.run import run
from mvpa_kfda.kfda.direct import apply, prepare
from mvpa_kfda.kfda.estimator import resolve_method
from mvpa_kfda.kfda.folds import make_folds
from mvpa_kfda.kfda.hat import hat_from_features, hat_from_gram
from mvpa_kfda.metrics.pairs import TABLES
from mvpa_kfda.utils.plain import recorded
from tests import build, entries, reference
from tests.entries import (
    CODES,
    DATA,
    ENTRIES,
    FIXED,
    LABELS,
    METHODS,
    NAMES,
    NEAR,
    OTHER_CODES,
    OTHER_NAMES,
    OTHER_VALUES,
    OTHERS,
    SEED,
    TUNING,
    N,
    P,
    T,
    banded,
    entries_with,
    epochs,
    everywhere,
    other_times,
    pairs_of_times,
    pick,
    same,
    scale_of,
)


@pytest.fixture(autouse=True)
def few_orders(monkeypatch):
    """Simulate no recordings in the order of the labels: decoding/test_orders does."""
    monkeypatch.setattr("mvpa_kfda.decoding.orders._random_orders", lambda *_: None)


# --------------------------------------------------------------------------- the oracle


def predict(K, K_test, y, lam, predicts, n_classes=None):
    """Train on (n, n), predict (n_test, n): predictions, and scores of classes."""
    if predicts == "numbers":
        return reference.regress(K, K_test, y[:, None], lam)[:, 0], None
    model = reference.fit(K, y, lam, n_classes or y.max() + 1)
    return model.predict(K_test), model.class_scores(K_test)


@dataclass(frozen=True)
class Learned:
    """What every fold learns first: transformers, after confounds (n, k) are out."""

    steps: tuple = ()
    confounds: np.ndarray | None = None
    by_labels: bool = False

    def __call__(self, cell, y, train, test):
        """Return features of training and of test trials."""
        Z, Z_test = cell.X[train], cell.X_test[test]
        if self.confounds is not None:
            model = LinearRegression().fit(self.confounds[train], Z)
            Z = Z - model.predict(self.confounds[train])
            Z_test = Z_test - model.predict(self.confounds[test])
        for step in map(clone, self.steps):
            step.fit(Z, y[train])
            Z, Z_test = step.transform(Z), step.transform(Z_test)
        return Z, Z_test


def matrices(X, X_test, columns, method, predicts):
    """Return kernel matrices (n, n) and (n_test, n) and penalties, by the kernels."""
    fitted = [fit(X, columns) for fit in method.kernels]
    grams = [k(X, X) for k in fitted]
    lambdas = [method.penalties(X, K, predicts) for K in grams]
    return grams, [k(X_test, X) for k in fitted], lambdas


def matrices_of_folds(cell, method, y, folds, learned, predicts):
    """Return such matrices for every fold, of its training and test trials.

    Without anything to learn, widths and penalties are those of all trials.
    """
    if learned is not None:
        parts = [learned(cell, y, *fold) for fold in folds]
        return [matrices(*part, cell.columns, method, predicts) for part in parts]
    grams, crosses, lambdas = matrices(
        cell.X, cell.X_test, cell.columns, method, predicts
    )
    return [
        (
            [K[np.ix_(train, train)] for K in grams],
            [K[np.ix_(test, train)] for K in crosses],
            lambdas,
        )
        for train, test in folds
    ]


def refit(cell, method, labels, truth, folds, predicts, learned=None):
    """Return predictions (n_test,) of the observed labels, and all scores (P + 1,).

    `labels` (P + 1, n) are trained with, `truth` (P + 1, n_test) is to be predicted.
    """
    given = (folds, learned, predicts)
    of_folds = matrices_of_folds(cell, method, labels[0], *given)
    n_classes = len(np.unique(labels[0])) if predicts == "classes" else None
    predicted, areas, of_pairs = np.full(truth.shape, np.nan), [], []
    for y, true, row in zip(labels, truth, predicted, strict=True):
        sets = []
        if learned and learned.by_labels:
            of_folds = matrices_of_folds(cell, method, y, *given)
        for (train, test), part in zip(folds, of_folds, strict=True):
            grams, crosses, lambdas = part
            within = np.arange(len(train))
            i, lam = pick(grams, lambdas, y[train], within, n_classes, method.splits)
            row[test], scores = predict(
                grams[i], crosses[i], y[train], lam, predicts, n_classes
            )
            if predicts == "classes":
                areas.append(reference.area(true[test], len(train) * scores))
                sets.append((true[test], scores, len(train)))
        if predicts == "classes":
            of_pairs.append(reference.pairs_of_scores(sets, n_classes))
    if predicts == "numbers":
        pairs = zip(truth, predicted, strict=True)
        return predicted[0], {"r2": np.array([r2_score(*pair) for pair in pairs])}
    return predicted[0], {
        "accuracy": np.mean(predicted == truth, axis=1),
        "roc_auc": np.reshape(areas, (len(labels), -1)).mean(axis=1),
        **{name: np.stack([each[name] for each in of_pairs]) for name in of_pairs[0]},
    }


def of_second_test(method):
    """Return a method whose penalty is at most .3, unless labels choose it."""

    def lam(X, K):
        lambdas = method.lam(X, K)
        return np.minimum(lambdas, 0.3 * scale_of(K)) if len(lambdas) == 1 else lambdas

    return replace(method, lam=lam)


def some(cells, number=3):
    """Return the first, a middle and the last of the positions, with their index."""
    cells = list(cells.items())
    chosen = (len(cells) - 1, 0, len(cells) // 3)[:number]
    return [cells[i] for i in sorted({*chosen})]


def assert_equals_oracle(result, entry, method, learned=None, cv=None):
    """Assert predictions, scores and nulls of some positions, from first to last."""
    levels, codes = np.unique(entry.y, return_inverse=True)
    cv = entry.cv if cv is None else cv
    if entry.tests_others:
        folds = [(np.arange(N), np.arange(len(OTHERS)))]
        labels = build.permuted(codes, 2, None, seed=SEED)
        others = OTHER_VALUES if entry.predicts == "numbers" else OTHER_CODES
        labels = levels[labels] if entry.predicts == "numbers" else labels
        truth = np.tile(others, (3, 1))
    else:
        folds = list(cv.split(codes, codes)) if hasattr(cv, "split") else cv
        labels = build.permuted(codes, 2, cv, seed=SEED)
        truth = labels = levels[labels] if entry.predicts == "numbers" else labels
    tests = [(result.metrics, result.nulls, truth, method)]
    if getattr(result, "second_nulls", {}):  # scored against the observed labels
        observed = result.metrics | result.second_scores
        stay = np.tile(labels[0], (3, 1))
        tests.append((observed, result.second_nulls, stay, of_second_test(method)))
    cells = entry.cells(DATA)
    assert len(cells) == np.size(result.scores)
    # A choice by hand takes long.
    by_numbers = method.of_numbers and entry.predicts == "numbers"
    chooses = by_numbers or method is METHODS["tuned"]
    for index, cell in some(cells, 2 if chooses else 3):
        for metrics, null, true, used in tests:
            ours = refit(cell, used, labels, true, folds, entry.predicts, learned)
            if used is method:
                assert_allclose(result.predicted[index], ours[0], rtol=1e-7, atol=0)
            for name, scores in ours[1].items():
                if name in KIND_OF:
                    if used is not method:
                        continue  # tables are those of the first test
                    observed = result.rdm(KIND_OF[name])[index]
                    assert_allclose(observed, scores[0], rtol=1e-7, atol=1e-9)
                    continue
                observed = np.asarray(metrics[name])[index]
                assert_allclose(observed, scores[0], rtol=1e-7, atol=1e-9)
                permuted = null[name][(slice(None), *index)]
                assert_allclose(permuted, scores[1:], rtol=1e-6, atol=1e-6)


KIND_OF = {name: kind for kind, name in TABLES.items()}
SCORING = {
    "classes": ["accuracy", "roc_auc", "pairwise_accuracy", "crossnobis", *KIND_OF],
    "numbers": ["r2"],
}


#: What entries could do each in their own way: features by number, columns of labels,
#: landmarks. Others begin where an entry has its matrix, and are tried at every fourth.
OWN_WAYS = ["linear", "rbf", "graph", "Ridge", "tuned", "auto", "auto, landmarks"]


def methods_of_entries():
    """Yield a parameter for each entry and method."""
    for i, (name, entry) in enumerate(ENTRIES.items()):
        for j, (which, method) in enumerate(METHODS.items()):
            if which in OWN_WAYS or (i + j) % 4 == 0:
                yield pytest.param(entry, method, id=f"{name}-{which}")


@pytest.mark.some(50)
@pytest.mark.parametrize(("entry", "method"), list(methods_of_entries()))
def test_refitting_gives_the_same(entry, method):
    options = {"n_permutations": 2, "random_state": SEED} | method.options(entry)
    result = entry(scoring=SCORING[entry.predicts], **options)
    assert_equals_oracle(result, entry, method)


SPEED = DATA[:, 1, 0] + CODES + np.sin(np.arange(N))
BLOCK = np.where(np.arange(N) % 3, "late", np.where(CODES, "mid", "early"))
#: A number and a category, as they are given and as columns.
CONFOUNDS = np.column_stack([SPEED.astype(object), BLOCK])
COLUMNS = np.column_stack([SPEED, BLOCK == "late", BLOCK == "mid"]).astype(float)
#: Folds that train on every other one of the trials outside their test set.
THINNED = [(train[::2], test) for train, test in KFold(3).split(CODES)]
TWO = PCA(2, svd_solver="full")
#: Options, and what every fold learns by them.
FOLDWISE = {
    "zscore": ({"preprocess": "zscore"}, Learned((StandardScaler(),))),
    "list": (
        {
            "preprocess": ["zscore", TWO, QuantileTransformer(n_quantiles=9)],
            "confounds": CONFOUNDS,
        },
        Learned((StandardScaler(), TWO, QuantileTransformer(n_quantiles=9)), COLUMNS),
    ),
    "confounds": ({"confounds": CONFOUNDS, "cv": THINNED}, Learned((), COLUMNS)),
    "a part": ({"cv": THINNED}, Learned()),
    "labels": (
        {"preprocess": ["noise_scale", TWO], "confounds": CONFOUNDS},
        Learned((reference.NoiseScaling(), TWO), COLUMNS, by_labels=True),
    ),
}


def can_learn(entry, what):
    """Whether an entry has such options, and classes if steps learn from them."""
    options, learned = FOLDWISE[what]
    of_classes = entry.predicts == "classes"
    return all(map(entry.has, options)) and (of_classes or not learned.by_labels)


def foldwise(methods):
    """Parametrise by entries, what folds learn, and methods.

    Of entries and what folds learn, every other pair: all of them follow below.
    """
    names = [
        (name, what, method)
        for name, what in build.by_turns(ENTRIES, FOLDWISE)
        for method in methods
        if can_learn(ENTRIES[name], what)
    ]
    return pytest.mark.parametrize(
        ("entry", "options", "learned", "method"),
        [
            pytest.param(
                ENTRIES[name], *FOLDWISE[what], METHODS[method], id="-".join(each)
            )
            for each in build.every_pair(names)
            for name, what, method in [each]
        ],
    )


@pytest.mark.some(22)
@foldwise(["linear", "rbf", "tuned", "auto"])
def test_steps_and_confounds_are_learned_anew(entry, options, learned, method):
    more = {"n_permutations": 2, "random_state": SEED} | method.options(entry)
    result = entry(scoring=SCORING[entry.predicts], **options, **more)
    assert_equals_oracle(result, entry, method, learned, options.get("cv"))


def agreement(true, predicted, scores):
    """Return a score of a user's own: the accuracy, and one if scores agree with it."""
    best = np.unique(NAMES)[scores.argmax(axis=1)]
    return np.mean(true == predicted) + np.mean(best == predicted)


def closeness(true, predicted, scores):
    """Return a score of a user's own: the squared error, of numbers."""
    assert scores is None
    return -np.mean((true - predicted) ** 2)


#: Functions that equal known metrics, for test sets of equal size, plus a constant.
OWN = {
    "classes": (agreement, "accuracy", 1),
    "numbers": (closeness, "neg_mean_squared_error", 0),
}


@everywhere
def test_functions_are_scores_as_the_known_ones_are(entry):
    function, known, more = OWN[entry.predicts]
    options = FIXED | {"n_permutations": 3, "random_state": SEED}
    result = entry(scoring=[known, function], **options)
    name = function.__name__
    assert result.scoring == [known, name]
    assert np.isnan(result.chances[name])
    for ours, theirs in (
        (result.metrics, result.metrics),
        (result.nulls, result.nulls),
        (result.fold_metrics, result.fold_metrics),
        *[(null, null) for null in [getattr(result, "second_nulls", {})] if null],
    ):
        assert_allclose(ours[name], theirs[known] + more, rtol=1e-6)
    p = result.pvalues(metric=name)
    assert_array_equal(p, result.pvalues(metric=known))


@pytest.mark.some(29)
@pytest.mark.parametrize("what", [None, *FOLDWISE])
@everywhere
def test_folds_and_trials_are_those_of_refitted_models(entry, what):
    classes = entry.predicts == "classes"
    given, learned = FOLDWISE[what] if what else ({}, None)
    if what and not can_learn(entry, what):
        return
    options = {"keep_class_scores": True} if entry.has("keep_class_scores") else {}
    result = entry(scoring=SCORING[entry.predicts], **FIXED, **given, **options)
    codes = np.unique(entry.y, return_inverse=True)[1]
    y, truth = (codes, codes) if classes else (entry.y, entry.y)
    folds = [(fold, result.tests[k]) for k, (fold, _) in enumerate(result.folds)]
    if entry.tests_others:
        truth = OTHER_CODES if classes else OTHER_VALUES
    for index, cell in some(entry.cells(DATA)):
        parts = matrices_of_folds(
            cell, METHODS["linear"], y, folds, learned, entry.predicts
        )
        found = {name: values[index] for name, values in result.fold_metrics.items()}
        for k, (train, test) in enumerate(folds):
            (K,), (K_test,), ((lam,),) = parts[k]
            predicted, scores = predict(K, K_test, y[train], lam, entry.predicts)
            if not classes:
                expected = r2_score(truth[test], predicted)
                assert_allclose(found["r2"][k], expected, rtol=1e-7)
                continue
            assert found["accuracy"][k] == np.mean(predicted == truth[test])
            of_set = [(truth[test], scores, len(train))]
            of_pairs = reference.pairs_of_scores(of_set, scores.shape[1])
            for name in ("pairwise_accuracy", "crossnobis"):
                assert_allclose(found[name][k], of_pairs[name], rtol=1e-6, atol=1e-9)
            scores = len(train) * scores
            expected = reference.area(truth[test], scores)
            assert_allclose(found["roc_auc"][k], expected, rtol=1e-7)
            elsewhere = "test_times" in result.axes and index[0] != index[1]
            if elsewhere or not options:
                continue  # class scores are of the diagonal only
            at = index[:1] if "test_times" in result.axes else index
            ours = len(train) * result.class_scores[at][test]
            assert_allclose(
                ours - ours[:, :1], scores - scores[:, :1], rtol=1e-6, atol=1e-8
            )
            posterior = np.exp(scores - np.logaddexp.reduce(scores, axis=1)[:, None])
            p = result.probabilities()[at][test]
            assert_allclose(p, posterior, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(
    "entry",
    [each for each in ENTRIES.values() if not each.tests_others],
    ids=[name for name, each in ENTRIES.items() if not each.tests_others],
)
def test_sorted_rows_are_tested_in_parts_of_each_class(entry):
    order = np.argsort(entry.y, kind="stable")
    X, y, n_folds = DATA[order], entry.y[order], 4
    if entry.predicts == "classes":
        part = np.concatenate([np.arange(n) * n_folds // n for n in np.bincount(CODES)])
    else:
        part = np.arange(N) % n_folds
    folds = range(n_folds)
    pairs = [(np.flatnonzero(part != i), np.flatnonzero(part == i)) for i in folds]
    run = FIXED | {"n_permutations": 3, "random_state": 0}
    with pytest.warns(UserWarning, match="rows are sorted by"):
        result = entry(X, y, cv=n_folds, **run)
    expected = entry(X, y, cv=pairs, permute="within_folds", **run)
    assert_array_equal(np.concatenate(result.tests), np.concatenate(expected.tests))
    assert_array_equal(result.scores, expected.scores)
    assert_array_equal(result.null, expected.null)


@pytest.mark.parametrize("name", ["epochs", "power", "map of epochs"])
def test_epochs_are_put_in_the_order_of_their_events(name):
    entry = ENTRIES[name]
    epochs = build.jittered(entry.convert(DATA))
    order = np.argsort(entry.y, kind="stable")
    stacked = entry.convert(DATA[order])  # as of events put together by condition
    stacked.events[:, 0] = epochs.events[order, 0]
    run = entry.options | {"cv": 5, "n_permutations": 5, "random_state": 0}
    result = entry.function(epochs, entry.y, **run)
    stacked = entry.function(stacked, entry.y[order], **run)
    for one, other in zip(result.tests, stacked.tests, strict=True):
        assert_array_equal(one, np.sort(order[other]))
    assert_array_equal(stacked.y, result.y[order])
    # Groups by turns are those of one recording.
    by_turns = entry.function(epochs, entry.y, **run, groups=np.arange(N) % 3)
    for one, other in zip(result.tests, by_turns.tests, strict=True):
        assert_array_equal(one, other)
    assert_allclose(stacked.scores, result.scores, rtol=1e-12)


@pytest.mark.parametrize("name", ["cross_validate", "regress"])
def test_a_kernel_matrix_is_as_good_as_features(name):
    entry, K = ENTRIES[name], rbf_kernel(DATA[:, :, 0], gamma=0.05)
    options = {"kernel": "precomputed", "scoring": SCORING[entry.predicts]}
    options |= {"n_permutations": 2, "random_state": SEED, "cv": entry.cv}
    result = entry.function(K, entry.y, **FIXED, **options)
    assert_equals_oracle(result, entry, METHODS["RBF(0.05)"])


@settings(derandomize=True, max_examples=25, deadline=None)
@given(
    counts=st.lists(st.integers(3, 12), min_size=2, max_size=6),
    p=st.integers(1, 60),
    name=st.sampled_from(["linear", "rbf", "polynomial", "weights", "tuned"]),
    seed=st.integers(0, 99),
)
def test_refitting_gives_the_same_for_any_shape(counts, p, name, seed):
    X, codes = build.features(counts, p, seed)
    method, cell = METHODS[name], same(X)
    options = {"kernel": Penalty(banded(np.arange(p)))} if name == "weights" else {}
    options = method.options(ENTRIES["cross_validate"]) | options
    options |= {"permute": "free", "n_permutations": 2, "random_state": seed}
    result = cross_validate(X, codes, cv=KFold(3), **options)
    labels = build.permuted(codes, 2, KFold(3), seed=seed, permute="free")
    folds = list(KFold(3).split(X))
    predicted, scores = refit(cell, method, labels, labels, folds, "classes")
    assert_array_equal(result.predicted, predicted)
    assert_allclose(result.scores, scores["accuracy"][0], rtol=1e-12, atol=0)
    assert_allclose(result.null, scores["accuracy"][1:], rtol=1e-12, atol=0)


# ------------------------------------------------------- what must not change a number


PERMUTED = {"n_permutations": 19, "random_state": SEED}


#: Steps that are affine and one that is not.
LEARNED = {
    "affine": ["zscore", TWO],
    "other": ["zscore", QuantileTransformer(n_quantiles=9)],
}


def options_of(entry, steps):
    """Options of a run, perhaps of one in which folds learn all that they can here."""
    if not steps:
        return PERMUTED
    options = {"preprocess": LEARNED[steps], "confounds": CONFOUNDS, "cv": THINNED}
    # One kind shares what it can with all others to train on, and has the penalty that
    # labels choose; the other one has neither.
    if steps == "affine":
        del options["cv"]
    else:
        options |= FIXED
    return PERMUTED | {name: options[name] for name in options if entry.has(name)}


@cache
def result_of(entry, steps=None):
    """What an entry gives, computed once."""
    return entry(**options_of(entry, steps))


def in_every_way(argument):
    """Parametrise by entries that have an argument: by turns nothing is learned."""
    return pytest.mark.parametrize(
        ("entry", "steps"),
        [
            pytest.param(ENTRIES[name], steps, id=f"{name}-{steps}")
            for name, steps in build.by_turns(ENTRIES, [None, *LEARNED], 3)
            if ENTRIES[name].has(argument)
        ],
    )


def for_each(*kinds, having):
    """Parametrise by one of the entries that are alike in some attributes."""
    chosen = {
        tuple(getattr(entry, kind) for kind in kinds): (name, entry)
        for name, entry in ENTRIES.items()
        if entry.has(having)
    }
    names, found = zip(*chosen.values(), strict=True)
    return pytest.mark.parametrize("entry", found, ids=names)


def assert_identical(one, other):
    """Assert that two values are equal bit for bit, whatever they are made of."""
    assert type(one) is type(other)
    if is_dataclass(one):
        one, other = (
            {
                part.name: getattr(value, part.name)
                for part in fields(value)
                if part.name != "options"  # of the call
            }
            for value in (one, other)
        )
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        one, other = list(one.values()), list(other.values())
    if isinstance(one, list | tuple):
        assert len(one) == len(other)
        for parts in zip(one, other, strict=True):
            assert_identical(*parts)
    elif isinstance(one, np.ndarray):
        is_text = one.dtype.kind == other.dtype.kind == "U"  # of any length
        assert_array_equal(one, other, strict=not is_text)
    else:
        assert one == other or (one != one and other != other)


def assert_equal_results(one, other):
    """Assert that two results are equal in every field, and say so."""
    assert_identical(one, other)
    assert one == other


#: The same trials for longer, so that times are done in several blocks.
LONG, _ = build.trials((12, 12, 12), P, 9)


@pytest.mark.some(11)
@in_every_way("n_jobs")
def test_workers_change_no_bit(entry, steps):
    X, options = LONG, options_of(entry, steps)
    if entry.holder in ("table", "image"):
        # Few positions are done in several blocks where they have landmarks.
        landmarks = {} if steps else {"kernel": "rbf", "approx": Nystrom(9)}
        X, options = DATA, options | landmarks
    assert_equal_results(entry(X, n_jobs=2, **options), entry(X, **options))


@for_each("function", having="n_jobs")
def test_workers_and_progress_reach_the_run_loop(entry, monkeypatch):
    seen = []

    def watch(positions, task, n_jobs, verbose, *checkpoint):
        seen.append((n_jobs, verbose))
        return run(positions, task, 1, False, *checkpoint)

    monkeypatch.setattr("mvpa_kfda.decoding.analysis.run", watch)
    entry(n_jobs=3, verbose=True)
    assert seen == [(3, True)]


@in_every_way("n_permutations")
def test_batches_change_no_bit(entry, steps, monkeypatch):
    expected = result_of(entry, steps)
    build.in_batches(1 if steps == "affine" else 7, monkeypatch)
    result = entry(**options_of(entry, steps))
    if entry.predicts == "numbers":  # of which the last digits are of a product's width
        assert_allclose(result.null, expected.null, rtol=1e-12, atol=1e-13)
        result = replace(result, nulls=expected.nulls)
    assert_equal_results(result, expected)


def assert_same_numbers(ours, theirs):
    for some, others in zip(ours, theirs, strict=True):
        assert_array_equal(some, others)


def numbers_at(result, at):
    """Return scores, nulls and predictions of the positions `at`."""
    null, predicted = np.moveaxis(result.null, 0, -1), result.predicted
    return [result.scores[at], null[at], predicted[at]]


#: What is left of the map without the first time.
LATER = {pairs_of_times: np.s_[1:, 1:], other_times: np.s_[1:]}


@pytest.mark.some(6)
@pytest.mark.parametrize(
    "entry", [e for e in ENTRIES.values() if "time" in e.cells.__name__]
)
def test_times_do_not_depend_on_the_others(entry):
    # Blocks of times begin elsewhere.
    shorter, longer = entry(LONG[:, :, 1:], **PERMUTED), entry(LONG, **PERMUTED)
    at = LATER.get(entry.cells, np.s_[:, 1:] if shorter.scores.ndim > 1 else np.s_[1:])
    # BLAS may round otherwise where values begin at another address.
    rounding = 1e-12 if entry.predicts == "numbers" else 0
    numbers = numbers_at(shorter, ...), numbers_at(longer, at)
    for some, others in zip(*numbers, strict=True):
        assert_allclose(some, others, rtol=0, atol=rounding)


@pytest.mark.parametrize("name", ["voxels", "vertices"])
def test_centres_do_not_depend_on_the_others(name):
    whole = result_of(ENTRIES[name])
    some = np.arange(whole.scores.size) % 3 == 1
    centres = (
        build.mask(np.stack([some.reshape(P, T), np.zeros((P, T))], axis=2))
        if name == "voxels"
        else build.surface(some[:P].astype(int), some[P:].astype(int))
    )
    few = ENTRIES[name](process_mask_img=centres, **PERMUTED)
    assert_same_numbers(numbers_at(few, ...), numbers_at(whole, some))


@in_every_way("dtype")
def test_single_precision_is_close(entry, steps):
    double = result_of(entry, steps)
    single = entry(dtype="float32", **options_of(entry, steps))
    assert single.parameters["dtype"] == "float32"
    assert_allclose(single.lambdas, double.lambdas, rtol=1e-6, atol=0)
    if entry.predicts == "numbers":
        assert (single.predicted != double.predicted).any()
        assert_allclose(single.predicted, double.predicted, rtol=1e-4, atol=0)
        assert_allclose(single.null, double.null, rtol=0, atol=1e-4)
    else:  # but for near ties
        assert np.mean(single.predicted != double.predicted) < 0.01
        assert np.mean(single.null != double.null) < 0.06 or steps
        assert_allclose(single.null, double.null, rtol=0, atol=2.1 / N)


@pytest.mark.some(11)
@everywhere
def test_the_seed_is_all_that_is_random(entry):
    result = result_of(entry)
    assert_equal_results(entry(**PERMUTED), result)
    other = entry(n_permutations=19, random_state=SEED + 1)
    assert_array_equal(other.scores, result.scores)
    assert (other.null != result.null).any()


def test_a_seed_is_drawn_where_none_is_given():
    entry = ENTRIES["arrays"]
    unseeded = entry(n_permutations=19)
    seed = unseeded.parameters["random_state"]
    assert_equal_results(entry(n_permutations=19, random_state=seed), unseeded)


# ---------------------------------------------------------------------------- p-values


CORRECTIONS = ["max", "max-step-down", "bonferroni", "fdr", "fdr-by"]
CLUSTERS = ["cluster", "cluster-size", "tfce"]


def p_by_hand(result, largest):
    """Return (1 + b) / (1 + P), of each position or by the largest of each map."""
    name, p = result.scoring[0], []
    tests = [(np.asarray(result.scores), result.nulls[name])]
    if result.is_tested_twice:
        observed = (result.metrics | result.second_scores)[name]
        tests.append((observed, result.second_nulls[name]))
    for scores, null in tests:
        if largest:
            null = null.reshape(len(null), -1).max(axis=1)
            null = null.reshape(-1, *(1,) * scores.ndim)
        p.append((1 + (null >= scores - 1e-6).sum(axis=0)) / (1 + len(null)))
    if len(p) == 2:  # tested on the same times, both nulls are one hypothesis
        np.fill_diagonal(p[1], 0)
    return np.max(p, axis=0)


def assert_p_values(result):
    """Assert the bounds, the formula and the order of all p-values."""
    least, p = 1 / (1 + result.n_permutations), result.pvalues()
    assert_allclose(p, p_by_hand(result, largest=False), rtol=1e-12, atol=0)
    largest = result.pvalues("max")
    assert_allclose(largest, p_by_hand(result, largest=True), rtol=1e-12, atol=0)
    corrected = {name: result.pvalues(name) for name in CORRECTIONS}
    for values in corrected.values():
        assert (np.asarray(values) >= np.asarray(p) - 1e-12).all()
    rounding = 1 + 1e-12
    assert np.all(corrected["max-step-down"] <= largest * rounding)
    assert np.all(corrected["fdr"] <= corrected["fdr-by"] * rounding)
    assert np.all(corrected["fdr"] <= corrected["bonferroni"] * rounding)
    m = np.size(p)
    assert_allclose(
        corrected["bonferroni"], np.minimum(1, m * np.asarray(p)), rtol=1e-12, atol=0
    )
    for name in CLUSTERS:
        corrected[name] = result.pvalues(name)
    for values in corrected.values():
        assert np.shape(values) == np.shape(result.scores)
        assert np.all(np.asarray(values) >= least * (1 - 1e-12))
        assert np.all(np.asarray(values) <= 1)


@everywhere
def test_p_values(entry):
    result = result_of(entry)
    assert_p_values(result)
    assert result.n_permutations == 19


def time_result(scores, null):
    """Return a result over time with these scores (T,) and null (P, T)."""
    times = np.arange(len(scores)) / 10
    return build.made(TimeResult, scores, null, n=4, times=times)


@settings(derandomize=True, max_examples=27, deadline=None)
@given(
    table=st.tuples(st.integers(2, 30), st.integers(1, 8)).flatmap(
        # Few different scores, so that many are equal.
        lambda shape: arrays(np.int64, shape, elements=st.integers(0, 6))
    )
)
def test_p_values_of_any_scores(table):
    assert_p_values(time_result(table[0] / 7, table[1:] / 7))


# ------------------------------------------------------------------- files and tables


def reloaded(result):
    with tempfile.TemporaryDirectory() as folder:
        result.save(Path(folder) / "result.h5")
        return load_result(Path(folder) / "result.h5")


@pytest.mark.some(17)
@in_every_way("n_permutations")
def test_saved_results_come_back(entry, steps):
    result = result_of(entry, steps)
    loaded = reloaded(result)
    assert_equal_results(loaded, result)
    learns = steps and entry.has("preprocess")
    assert (loaded == result_of(entry)) == (not learns)
    own = entry.has("cv") and steps == "other"
    assert (loaded.trains is not None) == own
    folds = THINNED if own else entry.cv
    if not entry.tests_others:
        for ours, expected in zip(loaded.folds, folds, strict=True):
            assert_array_equal(ours[0], expected[0])
            assert_array_equal(ours[1], expected[1])
    if learns and not entry.tests_others:
        shape = (*np.shape(result.scores)[: len(result.shape)], len(folds))
        if "test_times" in result.axes:
            shape = shape[:1] + shape[2:]
        assert np.shape(loaded.lambdas) == shape
    given = loaded.parameters
    assert given["n_confounds"] == (3 if steps and entry.has("confounds") else 0)
    assert (given["preprocess"] or [None])[0] == (
        recorded(StandardScaler()) if learns else None
    )


@pytest.mark.filterwarnings("ignore:.* resamples:RuntimeWarning")
@pytest.mark.parametrize("make", [build.group, build.comparison, build.latency])
def test_saved_results_of_groups_come_back(make):
    result = make()
    assert_equal_results(reloaded(result), result)


@pytest.mark.some(7)
@everywhere
def test_tuned_and_averaged_results_come_back(entry):
    reg = Tuned(TUNING)
    options = {"average": 2} if entry.has("average") else {}
    result = entry(reg=reg, groups=np.arange(N) % 2, **options)
    loaded = reloaded(result)
    assert_equal_results(loaded, result)
    assert loaded != result_of(entry)


texts = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=3)
plain = st.one_of(st.none(), st.booleans(), st.integers(-(2**40), 2**40), texts) | (
    st.floats(allow_nan=False)
)
parameters = st.dictionaries(
    st.text("abc_", min_size=1), plain | st.lists(plain) | st.lists(st.floats())
)


@settings(derandomize=True, max_examples=27, deadline=None)
@given(
    scores=arrays(np.float64, 3),
    null=arrays(np.float32, st.tuples(st.integers(1, 4), st.just(3))),
    classes=st.lists(texts, min_size=2, max_size=2, unique=True),
    parameters=parameters,
    groups=st.none() | arrays(np.int16, 4) | arrays("U3", 4, elements=texts),
)
def test_results_of_anything_come_back(scores, null, classes, parameters, groups):
    result = replace(
        time_result(scores, null),
        classes=np.array(classes),
        parameters=parameters,
        groups=groups,
    )
    assert_equal_results(reloaded(result), result)


@everywhere
def test_tables_have_a_row_for_each_position(entry):
    result = result_of(entry)
    table = result.to_dataframe(["max", "fdr"])
    assert len(table) == np.size(result.scores) == np.prod(result.shape, dtype=int)
    expected = {result.scoring[0]: result.scores, "p": result.pvalues()}
    if result.shape:
        expected |= {"p_max": result.pvalues("max"), "p_fdr": result.pvalues("fdr")}
    for name, values in expected.items():
        assert_array_equal(table[name], np.ravel(values))
    where = table.drop(columns=list(expected)).drop(
        columns="n_features", errors="ignore"
    )
    assert where.shape[1] >= len(result.shape)
    assert not where.duplicated().any()


# ---------------------------------------------------------------- what must be refused


def wide(entry):
    return Penalty(np.eye(entry.n_features + 1))


def narrow(entry):
    return GraphSmooth(build.chain(entry.n_features - 1))


MISFIT = r"is for \d+ features.* and the data have"
#: Argument, wrong value or a function of the entry that returns it, and the message.
REFUSED = [
    ("y", lambda entry: entry.y[:-1], "y must hold one value per trial"),
    ("y", lambda entry: entry.y[:, np.newaxis], "y must hold one value per trial"),
    ("y", lambda entry: entry.y[np.zeros(N, int)], "one class only|y is constant"),
    ("y", np.where(CODES, CODES, np.nan), "y is missing"),
    ("y", np.array(["ant", 1] * 18, dtype=object), "of type int, str"),
    ("y", lambda entry: np.ma.masked_equal(CODES, 2), "y is masked"),
    ("groups", np.arange(N - 1), "groups must hold one value per trial"),
    ("groups", 3, "groups must hold one value per .*; got"),
    ("y", 3, "y must hold one value per .*; got"),
    ("groups", np.ma.masked_equal(np.arange(N) % 4, 2), "groups is masked for 9 of 36"),
    ("confounds", np.ma.masked_less(SPEED, 0.0), r"confounds is masked for \d+ of 36"),
    (
        "confounds",
        [np.ma.masked_equal([k, k % 5], 3) for k in range(N)],
        "confounds is masked for 7 of 36",
    ),
    (
        "train_on",
        np.ma.masked_array(np.arange(N) % 2 == 0, mask=np.arange(N) == 3),
        "train_on is masked for 1 of 36|cannot be combined with test_epochs",
    ),
    ("groups", np.where(CODES, 1, np.nan), "groups is missing"),
    ("kernel", "foo", "'kernel': 'foo'"),
    ("kernel", None, "'kernel': None"),
    ("kernel", RBF, "the class RBF. Pass an instance"),
    ("kernel", GraphSmooth, r"class GraphSmooth\. Pass an instance, e\.g\. GraphSmo"),
    ("kernel", 3, "Invalid value for 'kernel': 3"),
    ("kernel", ["linear", "rbf"], "needs reg='tuned'"),
    ("kernel", ["linear"], "of two or more kernels"),
    ("kernel", "precomputed", "precomputed"),
    ("kernel", wide, MISFIT),
    ("kernel", narrow, MISFIT),
    ("kernel", lambda e: EmpiricalMap(wide(e)), MISFIT),
    ("kernel", lambda e: EmpiricalMap(narrow(e)), MISFIT),
    ("reg", "foo", "'reg': 'foo'"),
    ("reg", None, "'reg': None"),
    ("reg", 0, "'reg': 0"),
    ("reg", np.nan, "'reg': nan"),
    ("reg", True, "'reg': True"),
    ("reg", [0.1, "foo"], "'grid': 'foo'"),
    ("reg", [], r"'grid' of Tuned: \[\]"),
    ("reg", DegreesOfFreedom(40), "df=40 is too large"),
    ("cv", "foo", "cv"),
    ("cv", 1, "cv"),
    ("cv", 2.5, "cv"),
    ("cv", 100, "cv"),
    ("cv", [], "cv.*no folds"),
    ("cv", [(np.arange(9), np.arange(9))], "cv"),
    (
        "cv",
        [(np.arange(9), np.ma.masked_equal(np.arange(9, 18), 12))],
        "The test set of fold 0 .* has masked values",
    ),
    ("scoring", "foo", "'scoring': 'foo'"),
    ("scoring", [], r"'scoring': \[\]"),
    ("scoring", None, "'scoring': None"),
    ("scoring", lambda e: SCORING[e.predicts][:1] * 2, "names a metric twice"),
    ("n_permutations", -1, "'n_permutations': -1"),
    ("n_permutations", 9.0, r"'n_permutations': 9\.0"),
    ("n_permutations", None, "'n_permutations': None"),
    ("n_permutations", True, "'n_permutations': True"),
    ("permute", "foo", "'permute': 'foo'"),
    ("permute", np.array(["free", "foo"]), "'permute': array"),
    ("permute", "groups", "permute='groups' needs groups"),
    ("null", "stream", "'null': 'stream'. Allowed: 'auto', 'full', 'max'"),
    ("null", None, "'null': None"),
    ("random_state", -1, "'random_state': -1"),
    ("random_state", 1.5, r"'random_state': 1\.5"),
    ("random_state", "foo", "'random_state': 'foo'"),
    ("n_jobs", 0, "'n_jobs': 0"),
    ("n_jobs", 1.5, r"'n_jobs': 1\.5"),
    ("n_jobs", "two", "'n_jobs': 'two'"),
    ("dtype", "float16", "'dtype': 'float16'"),
    ("dtype", int, "'dtype': 'int64'"),
    ("n_components", 0, "'n_components': 0"),
    ("n_components", 3, "'n_components': 3.*one less than the 3 classes"),
    ("n_components", 1.5, r"'n_components': 1\.5"),
    ("average", 0, "'average': 0"),
    ("average", 2**70, "'average': 118.*at most 9,2"),
    ("n_permutations", 2**70, "'n_permutations': 118.*at most 9,2"),
    ("n_repeats", np.array([1, 2]), "'n_repeats': array"),
    ("n_repeats", 2**70, "'n_repeats': 118.*at most 9,2"),
    ("n_permutations", np.array([1, 2]), "'n_permutations': array"),
    ("cv", 2**70, "'cv': 118.*at most 9,2"),
    ("average", 5, "average=5 leaves class 'ant' without samples"),
    ("average", 1.5, r"'average': 1\.5"),
    ("approx", "nystrom", "'approx': 'nystrom'"),
    ("approx", Nystrom(N + 1), "more landmarks than the 36 trials"),
    ("task", "foo", "'task': 'foo'"),
    ("window", -1.0, "window"),
    ("window", 99.0, "window"),
    ("step", 0, "step"),
    ("window_mode", "foo", "'window_mode': 'foo'"),
    ("sfreq", 0, "'sfreq': 0"),
    ("tmin", np.nan, "'tmin': nan"),
    ("scale", "foo", "'scale': 'foo'"),
    ("picks", "foo", "foo"),
    ("sensors", "foo", "'sensors': 'foo'"),
    ("same_trials", "foo", "same_trials"),
    ("standardize", "foo", "'standardize': 'foo'"),
    ("checkpoint", 3, "'checkpoint': 3"),
    ("radius", 0, "'radius': 0"),
    ("src", 3, "'src': int. Allowed: mne.SourceSpaces"),
    ("distance", "foo", "'distance': 'foo'"),
    ("adjacency", np.eye(3), "adjacency"),
    ("mask_img", build.mask(np.ones((2, 2, 2))), "mask_img"),
    ("labels_img", np.zeros(P), "labels_img"),
    ("labels_img", np.ma.masked_equal(entries.REGIONS, 2), "labels_img"),
    ("y_test", OTHER_NAMES[:-1], "y_test must hold one value per trial"),
    ("X_test", OTHERS[:, :-1], "X_test has 4 features and X has 5"),
    ("test_epochs", epochs(OTHERS[:, :-1]), "channels"),
]
#: Arguments that do not go together, or only with these options.
CONFLICTS = [
    ({"average": 2, "cv": LeaveOneOut()}, "no test set holds more than 1"),
    ({"average": 2, "cv": ShuffleSplit(12)}, "needs every trial in no more than one"),
    ({"reg": "ledoit_wolf", "kernel": "rbf"}, "it needs a linear kernel"),
    ({"reg": "oas", "approx": Nystrom(5)}, "it needs a linear kernel"),
    ({"reg": "tuned", "kernel": lambda e: [wide(e), "rbf"]}, MISFIT),
    ({"reg": "tuned", "kernel": lambda e: [narrow(e), "rbf"]}, MISFIT),
    (  # of classes, which have components: values are left out trial by trial then
        {"reg": "tuned", "groups": np.arange(N) % 2, "cv": None, "n_components": 1},
        "holds a single group",
    ),
]
WRONG = (ValueError, TypeError)


def mistakes():
    """Return a parameter for each entry and some wrong options it can be given.

    Every entry is given something wrong for each of its arguments, and every other row
    of the tables: those that take data of a kind have the rows by turns.
    """
    single = [({argument: value}, message) for argument, value, message in REFUSED]
    turns = {}
    for name, entry in ENTRIES.items():
        met = set()
        rows = list(enumerate(single + CONFLICTS))
        turn = turns[entry.holder] = turns.get(entry.holder, -1) + 1
        for number, (options, message) in rows[turn % 2 :: 2] + rows[1 - turn % 2 :: 2]:
            due = number % 2 == turn % 2 or tuple(options) not in met
            of_values = "y_test" in options and entry.predicts == "numbers"
            if due and all(map(entry.has, options)) and not of_values:
                met.add(tuple(options))
                label = f"{name}-{'-'.join(options)}-{number}"
                yield pytest.param(entry, options, message, id=label)


@pytest.mark.some(300)
@pytest.mark.parametrize(("entry", "options", "message"), list(mistakes()))
def test_wrong_arguments_are_refused(entry, options, message):
    options = {
        argument: value(entry) if inspect.isfunction(value) else value
        for argument, value in options.items()
    }
    with pytest.raises(WRONG, match=message):
        entry(**options)


@for_each("function", "predicts", having="cv")
def test_folds_that_ignore_the_groups_are_warned_of_at_the_caller(entry):
    with pytest.warns(
        UserWarning, match="without regard to the groups.*GroupKF"
    ) as seen:
        entry(groups=build.groups_of(N), cv=3)
    (warning,) = [w for w in seen if "without regard" in str(w.message)]
    assert warning.filename == entries.__file__


def spoiled(value, dtype=float):
    """Return the data with one other value."""
    data = DATA.astype(dtype)
    data[7, 2, 0] = value
    return data


ANY = ("array", "table", "epochs", "image", "sources")
#: Name, data, message, and what can hold such data at all.
SPOILED = [
    ("NaN", spoiled(np.nan), r"\d NaN or infinite values", ("array", "epochs")),
    ("NaN of sources", spoiled(np.nan), r"stcs\[7\] has NaN", ("sources",)),
    ("infinity", spoiled(np.inf), r"\d NaN or infinite values", ("array", "epochs")),
    ("complex", DATA + 1j, "complex|real numbers", ANY),
    ("text", np.full(DATA.shape, "a"), "numeric|real numbers", ("array", "table")),
    ("objects", spoiled("a", object), "numeric|real numbers", ("array", "table")),
    ("missing", spoiled(None, object), r"\d NaN or infinite values", ("array",)),
    ("no trials", DATA[:0], "empty|shape|no epochs", ANY[:3]),
    ("no features", DATA[:, :0], "empty|shape", ("array", "table")),
    ("one trial", DATA[:1], "one class|one value|two or more|single|constant", ANY),
    ("more axes", DATA[..., None, None], "dimensions|shape", ("array", "table")),
    ("flat", np.ones_like(DATA), "differ|constant|flat", ANY),
    ("nothing finite", np.full_like(DATA, np.nan), "NaN", ANY),
]


def bad_data():
    """Return a parameter for each entry and all data it must refuse."""
    for name, entry in ENTRIES.items():
        for what, X, message, holders in SPOILED:
            if entry.convert is entries.on_grayordinates and np.iscomplexobj(X):
                continue  # there are no such CIFTI files
            if entry.holder in holders:
                yield pytest.param(entry, X, message, id=f"{name}-{what}")


@pytest.mark.parametrize(("entry", "X", "message"), list(bad_data()))
def test_wrong_data_are_refused(entry, X, message):
    with pytest.raises(WRONG, match=message):
        entry(X, entry.y[: len(X)])


@entries_with("n_permutations")
def test_what_outgrows_the_memory_is_refused(entry, monkeypatch):
    pages = {"SC_PHYS_PAGES": 1, "SC_PAGE_SIZE": 4096}
    real = os.sysconf
    monkeypatch.setattr(os, "sysconf", lambda name: pages.get(name) or real(name))
    options = {"null": "full"} if entry.has("null") else {}
    with pytest.raises(WRONG, match=r"needs .*kB.* memory"):
        entry(n_permutations=1000, random_state=0, **options)


def swapped(values):
    """Return values with their bytes in the other order, as .mat and FITS files do."""
    values = np.asarray(values)
    return values.astype(values.dtype.newbyteorder())


@for_each("convert", "predicts", having="n_permutations")
def test_the_order_of_bytes_does_not_matter(entry):
    given = {"groups": build.groups_of(N), "confounds": SPEED}
    given |= {"cv": None} if entry.has("groups") and not entry.tests_others else {}
    given = {name: value for name, value in given.items() if entry.has(name)}
    options = FIXED | {"n_permutations": 3, "random_state": SEED}
    expected = entry(**given, **options)
    given = {k: v if v is None else swapped(v) for k, v in given.items()}
    result = entry(swapped(DATA), swapped(entry.y), **given, **options)
    assert_equal_results(result, expected)


# ------------------------------------------------------ images with slabs of nothing


SLABS = {
    "zeros": np.zeros((N, P, T)),
    "NaN": np.full((N, P, T), np.nan),
    "infinity": np.full((N, P, T), np.inf),
}
slabs_of = pytest.mark.parametrize("slab", SLABS.values(), ids=SLABS)
images = pytest.mark.parametrize("name", ["voxels", "atlas"])


@slabs_of
@images
def test_what_is_outside_of_the_mask_does_not_matter(name, slab):
    entry = ENTRIES[name]
    img = build.volume(np.stack([DATA, slab], axis=3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = entry.function(img, NAMES, cv=entry.cv, **PERMUTED, **entry.options)
    assert_equal_results(result, result_of(entry))


@slabs_of
@images
def test_slabs_inside_of_the_mask_are_left_out(name, slab):
    entry, inside = ENTRIES[name], np.zeros((P, T, 2), bool)
    inside[..., 0] = True
    img = build.volume(np.stack([DATA, slab], axis=3))
    options = entry.options | {"mask_img": build.mask(np.ones((P, T, 2)))}
    if name == "atlas":
        options["labels_img"] = build.mask(np.stack([LABELS, LABELS], axis=2))
    with pytest.warns(RuntimeWarning, match="15 of 30 voxels .* are left out"):
        result = entry.function(img, NAMES, cv=entry.cv, **PERMUTED, **options)
    at = inside.ravel() if name == "voxels" else np.ones(2, bool)
    assert_same_numbers(numbers_at(result, at), numbers_at(result_of(entry), ...))
    assert np.isnan(result.scores[~at]).all()


GROUPS = np.arange(N) // 12
#: Stratified once and for all.
CV = list(StratifiedKFold(3).split(CODES, CODES))
CHAIN = GraphSmooth(build.chain(P))
TUNED = Tuned([Ridge(lam) for lam in (100.0, 10.0, 1.0)])
#: Not those that work on trials before they are averaged.
AVERAGING = {
    name: entry
    for name, entry in ENTRIES.items()
    if entry.has("average") and entry.holder != "image" and name != "power"
}
#: Those where kernels that are not linear can be averaged.
MAPS = {name: e for name, e in AVERAGING.items() if e.cells is not pairs_of_times}
#: How penalties are found.
CHOOSING = {"fixed": 0.3, "tuned": TUNED, "auto": "auto"}
everywhere = pytest.mark.parametrize("entry", AVERAGING.values(), ids=AVERAGING)


def assert_same(one, other, rtol=0.0):
    """Assert that two results hold the same scores, predictions and penalties."""
    assert_allclose(one.scores, other.scores, rtol=0, atol=1e-12)
    assert_array_equal(one.predicted, other.predicted)
    assert_allclose(one.null, other.null, rtol=0, atol=1e-6)
    assert one.penalty.keys() == other.penalty.keys()
    assert_allclose(one.lambdas, other.lambdas, rtol=rtol, atol=0)
    df = one.degrees_of_freedom
    assert_allclose(df, other.degrees_of_freedom, rtol=rtol, atol=0)


# Averages


@pytest.mark.some(24)
@pytest.mark.parametrize("reg", [0.3, TUNED, "auto"], ids=["fixed", "tuned", "auto"])
@pytest.mark.parametrize("kernel", ["linear", CHAIN], ids=["linear", "smooth"])
@everywhere
def test_averages_are_those_by_hand(entry, kernel, reg):
    options = {"kernel": kernel, "reg": reg, "n_permutations": 4, "random_state": 0}
    result = entry(DATA, NAMES, cv=CV, average=2, **options)
    assert result.members.shape == (18, 2)
    assert (CODES[result.members] == result.y[:, None]).all()
    averaged = np.array([DATA[members].mean(axis=0) for members in result.members])
    cv = [(train, test) for train, test in result.folds]
    scheme = result.parameters["permute"]
    assert scheme == "within_folds"
    by_hand = entry(averaged, NAMES[result.members[:, 0]], cv=cv, **options)
    assert by_hand.members is None
    assert_same(result, by_hand, rtol=1e-10)
    positions = result.shape[:1] if entry.cells is pairs_of_times else result.shape
    folds = (3,) if reg is TUNED else ()
    assert np.shape(result.lambdas) == positions + folds
    assert np.shape(result.degrees_of_freedom) == positions + folds


def averaged_kernel(X, members):
    """Return S K S' of the Gaussian kernel of features."""
    S = np.zeros((len(members), len(X)))
    np.put_along_axis(S, members, 1 / members.shape[1], axis=1)
    return S @ rbf_kernel(X, gamma=0.05) @ S.T


@pytest.mark.parametrize(("name", "reg"), build.by_turns(MAPS, CHOOSING, 3))
def test_other_kernels_are_averaged_themselves(name, reg):
    entry, reg = MAPS[name], CHOOSING[reg]
    options = {"reg": reg, "n_permutations": 4, "random_state": 0}
    result = entry(kernel=RBF(0.05), average=2, **options)
    y = NAMES[result.members[:, 0]]
    for cell, at in entry.cells(DATA).items():
        K = averaged_kernel(at.X, result.members)
        expected = cross_validate(
            K, y, kernel="precomputed", cv=result.folds, **options
        )
        assert_array_equal(result.predicted[cell], expected.predicted)
        lambdas = result.lambdas if cell == () else result.lambdas[cell]
        assert_allclose(lambdas, expected.lambdas, rtol=1e-9, atol=0)
        null = result.null[(slice(None), *cell)]
        assert_allclose(null, expected.null, rtol=0, atol=1e-6)


LISTS_OF_KERNELS = [["linear", CHAIN], ["linear", RBF(0.05)], [RBF(0.01), RBF(0.1)]]


@pytest.mark.some(5)
@pytest.mark.parametrize(("name", "kernels"), build.by_turns(MAPS, LISTS_OF_KERNELS, 3))
def test_a_kernel_of_a_list_is_chosen_for_averages(name, kernels):
    entry = MAPS[name]
    options = {"reg": TUNED, "cv": CV, "average": 2, "random_state": 0}
    result = entry(DATA, NAMES, kernel=kernels, **options)
    alone = [entry(DATA, NAMES, kernel=kernel, **options) for kernel in kernels]
    criteria = [each.penalty["criterion"] for each in alone]
    expected = np.concatenate(criteria, axis=-2)
    assert_allclose(result.penalty["criterion"], expected, rtol=1e-9, atol=0)
    shape = (*expected.shape[:-2], -1)
    best = expected.reshape(shape).argmin(axis=-1)
    assert_array_equal(result.penalty["kernel"], best // 3)


def test_averages_within_groups():
    result = cross_validate(
        DATA[:, :, 0], NAMES, groups=GROUPS, average=2, random_state=0, reg=TUNED
    )
    assert (GROUPS[result.members] == result.groups[:, None]).all()
    averaged = DATA[:, :, 0][result.members].mean(axis=1)
    by_hand = cross_validate(
        averaged, result.classes[result.y], groups=result.groups, reg=TUNED
    )
    assert_same(result, by_hand, rtol=1e-10)


@everywhere
def test_an_average_of_single_trials_changes_nothing(entry):
    plain = entry(DATA, NAMES, cv=CV)
    single = entry(DATA, NAMES, cv=CV, average=1)
    order = np.argsort(single.members[:, 0])
    assert_array_equal(single.predicted[..., order], plain.predicted)


# Landmarks


@pytest.mark.parametrize(
    "entry", [e for e in AVERAGING.values() if e.cells is pairs_of_times]
)
def test_landmarks_of_kernels_are_not_averaged_for_other_times(entry):
    with pytest.raises(ValueError, match="average=2 needs a linear kernel"):
        entry(DATA, NAMES, cv=CV, kernel="rbf", approx=Nystrom(N), average=2)


KERNELS = {"0.05": RBF(0.05), "rbf": "rbf", "poly": Polynomial(2), "W": CHAIN}


@pytest.mark.some(22)
@pytest.mark.parametrize(
    ("name", "kernel", "reg", "average"),
    build.every_pair(
        [
            each
            for each in product(AVERAGING, KERNELS, CHOOSING, [None, 2])
            if each[0] in MAPS or each[-1] is None
        ]
    ),
)
def test_all_landmarks_are_exact(name, kernel, reg, average):
    entry, kernel, reg = AVERAGING[name], KERNELS[kernel], CHOOSING[reg]
    options = {"kernel": kernel, "reg": reg, "cv": CV, "average": average}
    options |= {"n_permutations": 3, "random_state": 0}
    exact = entry(DATA, NAMES, **options)
    result = entry(DATA, NAMES, approx=Nystrom(N), **options)
    assert_same(result, exact, rtol=1e-7)


@pytest.mark.some(3)
@everywhere
def test_landmarks_for_a_list_of_kernels(entry):
    options = {"kernel": ["linear", RBF(0.05)], "reg": TUNED, "cv": CV}
    exact = entry(DATA, NAMES, **options)
    result = entry(DATA, NAMES, approx=Nystrom(N), **options)
    assert_same(result, exact, rtol=1e-7)
    assert_array_equal(result.penalty["kernel"], exact.penalty["kernel"])
    few = entry(DATA, NAMES, approx=Nystrom(4), **options)
    assert (few.degrees_of_freedom <= 5).all()


def test_landmarks_and_empirical_maps_know_channels_by_name():
    # The graph's channels are in another order than those of the data.
    epochs, order = build.epochs(DATA, units={}), np.array([3, 0, 4, 2, 1])
    adjacency = NEAR[np.ix_(order, order)]
    named = GraphSmooth((adjacency, [f"EEG{i}" for i in order]), 5.0)
    in_order = GraphSmooth(build.chain(P), 5.0)
    expected, result, unlike = (
        decode_epochs(epochs, NAMES, kernel=EmpiricalMap(kernel), cv=CV)
        for kernel in (in_order, named, GraphSmooth(adjacency, 5.0))
    )
    assert_same(result, expected, rtol=1e-10)
    assert (unlike.lambdas != expected.lambdas).any()
    options = {"kernel": named, "reg": Ridge(1.0), "cv": CV}
    exact = decode_epochs(epochs, NAMES, **options)
    result = decode_epochs(epochs, NAMES, approx=Nystrom(N), **options)
    assert_same(result, exact, rtol=1e-7)


# Reduced rank


WITH_RANK = [name for name, entry in ENTRIES.items() if entry.has("n_components")]


@pytest.mark.some(15)
@pytest.mark.parametrize(
    ("name", "reg"),
    [(name, "fixed") for name in WITH_RANK]
    + build.by_turns(WITH_RANK, ["tuned", "auto"]),
)
def test_reduced_rank_everywhere(name, reg):
    entry, reg = ENTRIES[name], CHOOSING[reg]
    options = {"reg": reg, "n_permutations": 3, "random_state": 0}
    result = entry(n_components=1, **options)
    assert result.parameters["n_components"] == 1
    for cell, at in entry.cells(DATA).items():
        if np.array_equal(at.X, at.X_test):
            expected = cross_validate(at.X, NAMES, cv=CV, n_components=1, **options)
            assert_array_equal(result.predicted[cell], expected.predicted)
            null = result.null[(slice(None), *cell)]
            assert_allclose(null, expected.null, rtol=0, atol=1e-6)
    if reg == 0.3:
        assert (entry(**options).predicted != result.predicted).any()


def test_reduced_rank_from_time_to_time():
    result = generalize_arrays(DATA, NAMES, n_components=1, reg=Ridge(2.0), cv=CV)
    for t, u in np.ndindex(T, T):
        K = linear_kernel(DATA[:, :, t])
        cross = linear_kernel(DATA[:, :, u], DATA[:, :, t])
        for train, test in CV:
            model = reference.fit(K[np.ix_(train, train)], CODES[train], 2.0, 3)
            expected, _ = reference.reduced(model, cross[np.ix_(test, train)], 1)
            assert_array_equal(result.predicted[t, u, test], expected)


# Large test sets of low-rank hats


@pytest.mark.parametrize("kernel", ["rbf", ["linear", RBF(0.1)]], ids=["one", "list"])
@pytest.mark.parametrize("sampling", ["kmeans", "uniform"])
def test_landmarks_of_a_region_do_not_depend_on_the_folds(sampling, kernel):
    # Test sets that are not in the order of trials.
    cv = KFold(3, shuffle=True, random_state=1)
    reg = TUNED if isinstance(kernel, list) else 0.3
    approx = Nystrom(5, sampling)
    options = {"kernel": kernel, "reg": reg, "cv": cv, "approx": approx}
    options |= {"n_permutations": 3, "random_state": 0}
    expected = cross_validate(DATA[:, :, 0], NAMES, **options)
    result = decode_regions(
        DATA[:, :, 0], NAMES, labels_img=np.ones(P), standardize=False, **options
    )
    assert_array_equal(result.classes[result.predicted[0]], expected.predictions)
    assert_allclose(result.null[:, 0], expected.null, rtol=1e-6, atol=0)
    lambdas = np.atleast_1d(expected.lambdas)
    assert_allclose(result.lambdas.ravel(), lambdas.ravel(), rtol=1e-9, atol=0)


def test_landmarks_by_chance_are_the_same_everywhere():
    X = DATA[:, :, 0]
    approx = Nystrom(5, "uniform", random_state=None)
    kernel, _ = resolve_method("rbf", 0.3, approx)
    assert_array_equal(kernel.fit(X).basis, kernel.fit(X).basis)
    choice, _ = resolve_method(["linear", RBF(0.1)], TUNED, approx)
    one, other = (each.fit(X).basis for each in choice.kernels)
    assert_allclose(one + X.mean(axis=0), other + X.mean(axis=0), rtol=1e-12, atol=0)
    seeds = {resolve_method("rbf", 0.3, approx)[0].approx.random_state for _ in "abc"}
    assert len(seeds) == 3


def test_landmarks_in_maps_are_one_position_at_a_time():
    n = 50_000
    kernel, _ = resolve_method("rbf", 0.3, Nystrom(50))
    source = SubsetPositions(np.zeros((1, n)), np.zeros(1000), None, kernel, 0.3)
    assert source.block_length == 4


@pytest.mark.parametrize("reg", [Shrinkage(0.2), 0.3], ids=repr)
@pytest.mark.parametrize("kernel", ["linear", CHAIN], ids=["linear", "W"])
def test_all_landmarks_of_a_linear_kernel_leave_the_penalty(kernel, reg):
    X, approx = DATA[:, :, 0], Nystrom(N)
    options = {"kernel": kernel, "reg": reg, "cv": CV, "random_state": 0}
    exact = cross_validate(X, NAMES, **options)
    result = cross_validate(X, NAMES, approx=approx, **options)
    assert result.lambdas == pytest.approx(exact.lambdas, rel=1e-9)
    averages = cross_validate(X, NAMES, approx=approx, average=2, **options)
    expected = cross_validate(X, NAMES, average=2, **options)
    assert averages.lambdas == pytest.approx(expected.lambdas, rel=1e-9)
    for each in (approx, None):
        model = KernelFDA(kernel, reg, approx=each).fit(X, NAMES)
        assert model.lambda_ == pytest.approx(exact.lambdas, rel=1e-9)


def long_problem(n=1100, p=3):
    rng = np.random.default_rng(0)
    codes = rng.integers(3, size=n)
    X = rng.standard_normal((n, p)) + 0.5 * rng.standard_normal((3, p))[codes]
    return X, np.array([codes, rng.permutation(codes), rng.permutation(codes)])


@pytest.mark.parametrize(
    "cv", [KFold(2), ShuffleSplit(2, test_size=520, random_state=0)]
)
def test_large_test_sets_are_not_made_of_blocks(cv):
    X, labels = long_problem()
    folds = make_folds(cv, labels[0])
    plan = prepare(hat_from_features(X, Ridge(30.0)), folds)
    dense = prepare(hat_from_gram(X @ X.T, Ridge(30.0)), folds)
    assert all(each.rows is not None for each in plan.inverses)
    assert all(each.rows is None for each in dense.inverses)
    got, expected = (apply(each, labels, 3, want_scores=True) for each in (plan, dense))
    assert_array_equal(got.predicted, expected.predicted)
    scores = expected.class_scores
    atol = 1e-9 * np.abs(scores).max()
    assert_allclose(got.class_scores, scores, rtol=0, atol=atol)
    single = prepare(hat_from_features(X, Ridge(30.0)), folds, "float32")
    scores = apply(single, labels, 3, want_scores=True).class_scores
    assert scores.dtype == np.float32
    assert_allclose(scores, expected.class_scores, rtol=0, atol=1e5 * atol)


@pytest.mark.parametrize("c", [2, 3])
@pytest.mark.parametrize("cv", [KFold(4), KFold(5), ShuffleSplit(3, random_state=0)])
def test_small_test_sets_by_the_same_route(cv, c, monkeypatch):
    monkeypatch.setattr("mvpa_kfda.kfda.direct._LARGE_FOLD", 2)
    monkeypatch.setattr("mvpa_kfda.kfda.direct.is_low_rank", lambda hat, m: True)
    X, labels = long_problem(41)
    labels = labels % c
    folds = make_folds(cv, labels[0])
    plan = prepare(hat_from_features(X, Ridge(3.0)), folds)
    assert all(each.rows is not None for each in plan.inverses)
    pairs = sorted(folds.pairs, key=lambda pair: len(pair[1]))
    expected = reference.reference_cross_validate(
        linear_kernel(X), labels[0], pairs, 3.0, labels
    )
    got = apply(plan, labels, c, want_scores=True)
    assert_array_equal(got.predicted.T, expected.predictions)
    scores = got.class_scores.transpose(2, 0, 1)
    assert_allclose(scores, expected.class_scores, rtol=0, atol=1e-10)


def test_tuning_with_large_test_sets():
    X, labels = long_problem()
    y, cv = labels[0], KFold(2)
    tuned = Tuned([Ridge(lam) for lam in (1e4, 300.0, 10.0)])
    options = {"reg": tuned, "cv": cv, "n_permutations": 2, "random_state": 0}
    options["groups"] = np.arange(len(y)) % 7
    result = cross_validate(X, y, **options)
    dense = cross_validate(X @ X.T, y, kernel="precomputed", **options)
    assert_same(result, dense, rtol=1e-8)
    criteria = dense.penalty["criterion"]
    assert_allclose(result.penalty["criterion"], criteria, rtol=1e-9, atol=0)


def test_a_large_test_set_that_is_fitted_exactly():
    # One feature is there in the test set only.
    X, labels = long_problem()
    X[:550, 0] = 0
    X[550:, 0] -= X[550:, 0].mean()
    cv = [
        (np.arange(550), np.arange(550, 1100)),
        (np.arange(550, 1100), np.arange(550)),
    ]
    for reg, error in (
        (Ridge(1e-10), "is too small"),
        (Tuned([1e-14]), "No lambda of"),
    ):
        with pytest.raises(ValueError, match=error):
            cross_validate(X, labels[0], reg=reg, cv=cv)


def test_averages_of_other_trials_mean_nothing():
    other = {"X_test": DATA[:12] + 1.0}
    for options, what in ((other, "tests on other trials"), ({"cv": CV}, "y_test")):
        y_test = NAMES[: 12 if "X_test" in options else N]
        with pytest.raises(ValueError, match=rf"average=2 .* combined with {what}"):
            generalize_arrays(DATA, NAMES, y_test=y_test, average=2, **options)
