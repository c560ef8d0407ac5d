"""Tuned penalties equal a nested loop in which every model is trained anew.

The nested loop is ``reference_nested`` of ``reference.py``. What is compared: the
criterion of every candidate, the choice and the predictions of every fold, for the
observed and for permuted labels, both where one decomposition of all trials serves all
folds and where each has its own.
"""

import tracemalloc
from dataclasses import dataclass
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import kstest
from sklearn.metrics.pairwise import linear_kernel, polynomial_kernel, rbf_kernel
from sklearn.model_selection import (
    KFold,
    LeaveOneGroupOut,
    LeaveOneOut,
    ShuffleSplit,
    StratifiedKFold,
    cross_val_predict,
)

from mvpa_kfda import RBF, KernelFDA, Polynomial, Ridge, Tuned, cross_validate
from mvpa_kfda.kfda.direct import apply
from mvpa_kfda.kfda.folds import Folds, InnerFolds, make_folds
from mvpa_kfda.kfda.foldwise import FoldwisePlan
from mvpa_kfda.kfda.kernels import KernelChoice, Linear, Nystrom, Precomputed
from mvpa_kfda.kfda.preprocess import FoldPreprocessing
from mvpa_kfda.kfda.rules import RuleTerms, contrasts, usable
from mvpa_kfda.utils.plain import recorded
from tests import reference

#: Class counts, unbalanced.
COUNTS = {2: (14, 9), 3: (6, 11, 8), 5: (4, 7, 5, 6, 3)}
#: Kernels, and the functions of scikit-learn that make the oracle's matrices.
KERNELS = {
    "linear": (Linear(), linear_kernel),
    "rbf": (RBF(0.05), lambda X: rbf_kernel(X, gamma=0.05)),
    "wide rbf": (RBF(0.005), lambda X: rbf_kernel(X, gamma=0.005)),
    "polynomial": (
        Polynomial(2, gamma=0.1),
        lambda X: polynomial_kernel(X, degree=2, gamma=0.1),
    ),
    "precomputed": (Precomputed(), linear_kernel),
}
#: How the test sets of an analysis are drawn.
OUTER = {
    "partition": KFold(5, shuffle=True, random_state=1),
    "unequal": KFold(4, shuffle=True, random_state=2),
    "leave one out": LeaveOneOut(),
    "overlapping": ShuffleSplit(4, test_size=6, random_state=0),
    "of a part": ShuffleSplit(4, test_size=5, train_size=15, random_state=0),
}
#: How those within a training set are, of groups (n_train,).
INNER = {"leave one out": LeaveOneOut(), "groups": LeaveOneGroupOut()}
#: From how many tested trials each fold has a decomposition of its own.
MANY_TESTED = "mvpa_kfda.kfda.foldwise._MANY_TESTED"


def peak_bytes(function, *args, **options):
    """Return what a function allocates at its peak."""
    tracemalloc.start()
    try:
        function(*args, **options)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def make_data(c, p, seed=0, n_groups=4):
    """Return features in another unit than 1, codes in mixed order, and groups."""
    rng = np.random.default_rng(seed)
    codes = rng.permutation(np.repeat(np.arange(c), COUNTS[c]))
    means = 0.8 * rng.standard_normal((c, p))
    X = 5.0 + rng.standard_normal((len(codes), p)) * np.geomspace(3, 0.3, p)
    return X + means[codes], codes, rng.permutation(np.arange(len(codes)) % n_groups)


def grid_of(grams, n_lambdas=4):
    """Return absolute penalties (n_kernels, L), the largest first."""
    scales = [np.trace(K - K.mean(axis=0)) / len(K) for K in grams]
    return np.outer(scales, np.geomspace(10, 0.02, n_lambdas))


@dataclass
class Problem:
    """What both sides are asked; `folds` are those of the analysis."""

    c: int = 3
    p: int = 5
    outer: str = "partition"
    inner: str = "leave one out"
    kernels: tuple = ("linear",)
    n_permutations: int = 2
    rank: int | None = None

    def __post_init__(self):
        self.X, self.codes, groups = make_data(self.c, self.p)
        self.groups = groups if self.inner == "groups" else None
        rng = np.random.default_rng(3)
        shuffled = [rng.permutation(self.codes) for _ in range(self.n_permutations)]
        self.labels = np.array([self.codes, *shuffled])
        self.folds = make_folds(OUTER[self.outer], self.codes)
        self.grams = [KERNELS[name][1](self.X) for name in self.kernels]
        self.lambdas = grid_of(self.grams)

    def plan(self, lambdas=None, folds="outer", tuned=None, of_values=False):
        """Return the plan of a grid of absolute values."""
        grid = self.lambdas[0] if lambdas is None else lambdas
        tuned = tuned or Tuned([Ridge(lam) for lam in grid])
        kernels = tuple(KERNELS[name][0] for name in self.kernels)
        kernel = kernels[0] if len(kernels) == 1 else KernelChoice(kernels)
        X = self.grams[0] if self.kernels == ("precomputed",) else self.X
        folds = self.folds if folds == "outer" else folds
        inner, dtype = InnerFolds(self.groups, of_values), np.dtype("float64")
        return FoldwisePlan(
            X, kernel, tuned, FoldPreprocessing(), folds, inner, dtype, self.rank
        )

    def splits(self, train):
        """Return the splits of some training rows."""
        groups = None if self.groups is None else self.groups[train]
        return list(INNER[self.inner].split(train, groups=groups))

    def nested(self, lambdas=None, splits=None):
        return reference.reference_nested(
            self.grams,
            self.lambdas if lambdas is None else lambdas,
            self.codes,
            self.folds.pairs,
            splits or self.splits,
            self.labels,
            rank=self.rank,
        )


def in_order_of_results(folds, values):
    """Concatenate the folds' values (P, m, ...) as results come out: by size."""
    sizes = [(len(test), len(train)) for train, test in folds.pairs]
    order = sorted(range(len(values)), key=sizes.__getitem__)
    return np.concatenate([values[i] for i in order], axis=1)


def assert_equals_nested(problem, plan, nested, rtol=1e-8):
    """Compare criteria, choices, predictions and class scores."""
    for i, labels in enumerate(problem.labels):
        record = plan.penalty(labels[None], problem.c)
        criteria = record["criterion"][0]
        assert_allclose(criteria, nested.criteria[i], rtol=rtol, atol=1e-12)
        assert_array_equal(record["kernel"][0], nested.kernels[i])
        assert_allclose(record["lambda"][0], nested.lambdas[i], rtol=1e-12, atol=0)
    got = apply(plan, problem.labels, problem.c, want_scores=True)
    predicted = in_order_of_results(problem.folds, nested.predictions)
    assert_array_equal(got.predicted.T, predicted)
    scores = in_order_of_results(problem.folds, nested.class_scores)
    finite = np.isfinite(scores)
    atol = rtol * np.abs(scores[finite]).max()
    got = got.class_scores.transpose(2, 0, 1)
    assert_array_equal(np.isfinite(got), finite)
    assert_allclose(got[finite], scores[finite], rtol=0, atol=atol)


def assert_both_equal_nested(problem, make, nested, monkeypatch, rtol=1e-8):
    """Compare plans from `make` that share a decomposition, where they can, or not."""
    plan = make()
    assert plan.is_shared == (problem.outer != "of a part")
    assert_equals_nested(problem, plan, nested, rtol)
    with monkeypatch.context() as patch:
        patch.setattr(MANY_TESTED, 1)
        plan = make()
        assert not plan.is_shared
        assert_equals_nested(problem, plan, nested, rtol)


# Every pair of settings is in one of these; all of them together are slow.
PAIRS = [
    (2, 4, "partition", "leave one out"),
    (2, 40, "unequal", "groups"),
    (2, 4, "overlapping", "groups"),
    (2, 40, "leave one out", "leave one out"),
    (2, 4, "of a part", "groups"),
    (3, 40, "partition", "groups"),
    (3, 4, "unequal", "leave one out"),
    (3, 40, "overlapping", "leave one out"),
    (3, 4, "leave one out", "groups"),
    (3, 40, "of a part", "leave one out"),
    (5, 4, "leave one out", "leave one out"),
    (5, 40, "unequal", "groups"),
    (5, 4, "of a part", "groups"),
    (5, 40, "overlapping", "leave one out"),
    (5, 4, "partition", "groups"),
]


@pytest.mark.some(5)
@pytest.mark.parametrize(("c", "p", "outer", "inner"), PAIRS)
def test_equals_the_nested_loop(c, p, outer, inner, monkeypatch):
    problem = Problem(c, p, outer, inner)
    (each,) = problem.plan().whole.sets
    assert each.is_dual == (p == 40)
    assert_both_equal_nested(problem, problem.plan, problem.nested(), monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("inner", INNER)
@pytest.mark.parametrize("outer", OUTER)
@pytest.mark.parametrize("p", [4, 40])
@pytest.mark.parametrize("c", COUNTS)
def test_equals_the_nested_loop_in_all_settings(c, p, outer, inner, monkeypatch):
    problem = Problem(c, p, outer, inner, n_permutations=1)
    assert_both_equal_nested(problem, problem.plan, problem.nested(), monkeypatch)


def test_the_settings_choose_differently():
    # Else the tests above could not fail: folds and labellings disagree.
    nested = Problem(5, 4, inner="groups", n_permutations=1).nested()
    assert len(np.unique(nested.lambdas)) > 1
    assert (nested.lambdas[0] != nested.lambdas[1]).any()


@pytest.mark.parametrize("inner", INNER)
@pytest.mark.parametrize(
    ("kernels", "p"),
    [
        (("linear", "rbf", "wide rbf"), 4),
        (("polynomial", "linear"), 40),
        (("precomputed",), 4),
    ],
)
def test_kernel_and_penalty_are_chosen_together(kernels, p, inner, monkeypatch):
    problem = Problem(3, p, "unequal", inner, kernels, 1)
    problem.lambdas = np.tile(problem.lambdas.mean(axis=0), (len(kernels), 1))
    nested = problem.nested()
    assert len(np.unique(nested.kernels)) > 1 or len(kernels) == 1
    assert_both_equal_nested(problem, problem.plan, nested, monkeypatch)


def test_reduced_rank_predicts_with_what_is_chosen_for_all_discriminants(monkeypatch):
    problem = Problem(5, 6, "unequal", "groups", rank=1)
    assert_both_equal_nested(problem, problem.plan, problem.nested(), monkeypatch)


@pytest.mark.parametrize("kernels", [("linear",), ("linear", "rbf"), ("wide rbf",)])
@pytest.mark.parametrize("p", [4, 40])
@pytest.mark.parametrize("many", [256, 1], ids=["shared", "alone"])
def test_models_of_folds_score_rows_that_are_no_trials(many, p, kernels, monkeypatch):
    monkeypatch.setattr(MANY_TESTED, many)
    problem = Problem(3, p, "unequal", "groups", kernels)
    X, new = problem.X, 5.0 + np.random.default_rng(7).standard_normal((6, p))
    grams = [KERNELS[name][1](np.concatenate([X, new])) for name in kernels]
    n, plan, numbers = len(X), problem.plan(), set()
    targets = plan.targets(problem.labels, 3)
    T = np.empty((2, n, len(problem.labels)))
    T[:, plan.folds.order] = targets.T
    for fold, fit, _ in plan.models(targets):
        train, rows = np.setdiff1d(np.arange(n), fold.test), np.arange(n, n + 6)
        for b, number in enumerate(fit.number):
            kernel, i = np.divmod(number, problem.lambdas.shape[1])
            weights = fold.weights(fit)[:, :, b]
            got = fold.columns(new) @ weights[:, :-1].T + weights[:, -1]
            K, lam = grams[kernel][:, train], fold.grid[kernel, i]
            expected = reference.regress(K[train], K[rows], T[:, train, b].T, lam)
            assert_allclose(got, expected, rtol=0, atol=1e-9)
            numbers.add(number)
    assert len(numbers) > 1


@pytest.mark.parametrize("inner", INNER)
@pytest.mark.parametrize("p", [4, 40])
@pytest.mark.parametrize("many", [256, 1], ids=["shared", "alone"])
def test_values_choose_as_in_a_nested_loop(many, p, inner, monkeypatch):
    monkeypatch.setattr(MANY_TESTED, many)
    problem = Problem(3, p, "unequal", inner)
    values = problem.X[:, :3].sum(axis=1) + np.random.default_rng(1).normal(size=25)
    plan, (K,) = problem.plan(of_values=True), problem.grams
    record, expected = plan.penalty(values[None], None), []
    for i, (train, test) in enumerate(problem.folds.pairs):
        _, lam, criteria = reference.choose(
            [K], problem.lambdas, values, train, problem.splits(train), None
        )
        assert_allclose(record["criterion"][0, i], criteria, rtol=1e-8, atol=0)
        assert_allclose(record["lambda"][0, i], lam, rtol=1e-12, atol=0)
        K_rows, T = K[:, train], values[train, None]
        predicted = reference.regress(K_rows[train], K_rows[test], T, lam)
        expected.append((values[test, None] - predicted).T)
    found = plan.fold_residuals(values[plan.folds.order][None, :, None])
    got = np.concatenate([E.ravel() for _, E in found])
    expected = in_order_of_results(problem.folds, expected)[0]
    assert_allclose(got, expected, rtol=0, atol=1e-9)


def test_values_of_a_training_set_of_one_group_are_left_out_alone():
    problem = Problem(3, 4, inner="groups")
    problem.groups = np.repeat([0, 1], [12, 13])
    problem.folds = make_folds(LeaveOneGroupOut(), problem.codes, problem.groups)
    values, (K,) = problem.X[:, 0] - problem.X[:, 1] ** 2, problem.grams
    got = problem.plan(of_values=True).penalty(values[None], None)["criterion"][0]
    for criteria, (train, _) in zip(got, problem.folds.pairs, strict=True):
        splits = list(LeaveOneOut().split(train))
        expected = reference.choose([K], problem.lambdas, values, train, splits, None)
        assert_allclose(criteria, expected[2], rtol=1e-8, atol=0)


@pytest.mark.parametrize("p", [4, 400])
@pytest.mark.parametrize("grouped", [False, True], ids=["leave one out", "groups"])
@pytest.mark.parametrize("grid", ["auto", [10.0, 0.1, 0.01]], ids=str)
def test_large_test_sets_have_matrices_of_their_own(grid, grouped, p, monkeypatch):
    n, rng = 520, np.random.default_rng(0)
    y = rng.integers(3, size=n)
    X = rng.standard_normal((n, p)) + 0.2 * rng.standard_normal((3, p))[y]
    groups = np.arange(n) % 8 if grouped else None
    cv = [(train, test) for train, test in KFold(2).split(X)]
    cv.append((np.arange(300), np.arange(300, n)))  # few enough
    options = {"reg": Tuned(grid), "groups": groups, "cv": cv, "random_state": 0}
    options |= {"n_permutations": 2, "permute": "free"}
    alone = cross_validate(X, y, **options)
    monkeypatch.setattr(MANY_TESTED, 261)
    shared = cross_validate(X, y, **options)
    for name in ("grid", "lambda", "criterion", "kernel"):
        values = shared.penalty[name]
        assert_allclose(alone.penalty[name], values, rtol=1e-9, atol=0)
    assert_array_equal(alone.predicted, shared.predicted)
    assert_array_equal(alone.null, shared.null)
    scale = np.nanmax(np.abs(shared.class_scores))
    scores = alone.class_scores
    assert_allclose(scores, shared.class_scores, rtol=0, atol=1e-9 * scale)


# --------------------------------------------------------------------- what is recorded


def test_recorded_in_the_order_of_folds():
    # Folds are processed by size: here the first is the largest.
    X, codes, _ = make_data(3, 4)
    tests = np.split(np.random.default_rng(0).permutation(25), [8, 11, 18, 20])
    cv = [(np.setdiff1d(np.arange(25), test), test) for test in tests]
    grid = grid_of([linear_kernel(X)])
    result = cross_validate(X, codes, reg=Tuned([Ridge(lam) for lam in grid[0]]), cv=cv)
    loo = lambda train: list(LeaveOneOut().split(train))  # noqa: E731
    nested = reference.reference_nested([linear_kernel(X)], grid, codes, cv, loo)
    assert len(np.unique(nested.lambdas[0])) > 1
    assert_allclose(result.lambdas, nested.lambdas[0], rtol=1e-12, atol=0)
    assert_allclose(result.penalty["criterion"], nested.criteria[0], rtol=1e-8, atol=0)
    assert_allclose(result.penalty["grid"], grid, rtol=1e-12, atol=0)
    values = np.linalg.eigvalsh(np.cov(X.T, bias=True) * len(X))
    df = [1 + (values / (values + lam)).sum() for lam in result.lambdas]
    assert_allclose(result.degrees_of_freedom, df, rtol=1e-10, atol=0)
    for test, predicted in zip(tests, nested.predictions, strict=True):
        assert_array_equal(result.predictions[test], predicted[0])


def test_cross_validating_the_estimator_gives_the_same():
    X, codes, _ = make_data(3, 4)
    tuned = Tuned([Ridge(lam) for lam in grid_of([linear_kernel(X)], 6)[0]])
    cv = KFold(4, shuffle=True, random_state=0)
    result = cross_validate(X, codes, reg=tuned, cv=cv)
    model = KernelFDA(reg=tuned)
    assert_array_equal(result.predictions, cross_val_predict(model, X, codes, cv=cv))
    lambdas = [model.fit(X[train], codes[train]).lambda_ for train, _ in cv.split(X)]
    assert_allclose(result.lambdas, lambdas, rtol=1e-12, atol=0)


@pytest.mark.parametrize("inner", INNER)
@pytest.mark.parametrize("p", [4, 40])
def test_choice_on_all_trials(p, inner):
    problem = Problem(3, p, inner=inner)
    tuned = Tuned([Ridge(lam) for lam in problem.lambdas[0]])
    rows = np.arange(len(problem.codes))
    _, lam, criteria = reference.choose(
        problem.grams, problem.lambdas, problem.codes, rows, problem.splits(rows), 3
    )
    model = KernelFDA(reg=tuned).fit(problem.X, problem.codes, groups=problem.groups)
    choice = model.tuning_
    assert choice.kernel == 0
    assert choice.lam == model.lambda_ == pytest.approx(lam, rel=1e-12)
    assert_allclose(choice.lambdas, problem.lambdas, rtol=1e-12, atol=0)
    assert_allclose(choice.criterion, criteria, rtol=1e-8, atol=0)
    without_folds = problem.plan(folds=Folds((), len(rows))).penalty(
        problem.labels[:1], 3
    )
    assert_allclose(without_folds["lambda"], [[lam]], rtol=1e-12, atol=0)
    assert_allclose(without_folds["criterion"][0, 0], criteria, rtol=1e-8, atol=0)


#: Trials in groups of several, of one each, and without groups.
GROUPINGS = {
    "none": lambda n: None,
    "alone": np.arange,
    "four": lambda n: np.arange(n) % 4,
}


@pytest.mark.some(12)
@pytest.mark.parametrize("groups", GROUPINGS.values(), ids=GROUPINGS)
@pytest.mark.parametrize("p", [4, 12, 40])
@pytest.mark.parametrize("c", COUNTS)
def test_by_default_two_penalties_are_without_labels(c, p, groups, monkeypatch):
    """One of them is chosen by generalized cross-validation, or by groups left out."""
    problem = Problem(c, p, "unequal", n_permutations=3)
    codes, n = problem.codes, len(problem.codes)
    problem.groups = groups = groups(n)
    K = linear_kernel(problem.X - problem.X.mean(axis=0))
    found = reference.label_free(K, p, groups)
    lambdas = np.sort([[found.like_noise, found.anywhere]])[:, ::-1]

    def splits(train):
        if groups is None or len(np.unique(groups)) == n:
            return None
        return list(LeaveOneGroupOut().split(train, groups=groups[train]))

    record = problem.plan(tuned=Tuned()).penalty(codes[None], c)
    assert_allclose(record["grid"][0], lambdas, rtol=1e-6, atol=0)
    nested = problem.nested(record["grid"][0], splits)
    make = lambda: problem.plan(tuned=Tuned())  # noqa: E731
    assert_both_equal_nested(problem, make, nested, monkeypatch)
    chosen = KernelFDA(reg="tuned").fit(problem.X, codes, groups=groups).tuning_
    rows = np.arange(n)
    of_all = reference.choose([K], lambdas, codes, rows, splits(rows), c)
    assert_allclose(chosen.criterion, of_all[2], rtol=1e-6)
    assert_allclose(chosen.lam, of_all[1], rtol=1e-6)


@pytest.mark.parametrize("kernels", [("linear", "wide rbf"), ("rbf",)])
def test_kernels_that_are_not_linear_are_tuned_over_their_spectra(kernels, monkeypatch):
    problem = Problem(3, 6, "unequal", kernels=kernels)
    make = lambda: problem.plan(tuned=Tuned())  # noqa: E731
    grid = make().penalty(problem.labels[:1], 3)["grid"][0]
    lambdas = [reference.lambdas_over_spectrum(K) for K in problem.grams]
    assert_allclose(grid, lambdas, rtol=1e-6, atol=0)
    nested = problem.nested(grid, lambda train: None)
    assert len(np.unique(nested.kernels)) == len(kernels)
    # The smallest of them leave few digits of squared residuals.
    assert_both_equal_nested(problem, make, nested, monkeypatch, rtol=1e-3)


def test_labels_choose_one_or_the_other():
    # Else the test of defaults could not fail.
    chosen = set()
    for c, p in product(COUNTS, (4, 12, 40)):
        problem = Problem(c, p, "unequal", n_permutations=3)
        plan = problem.plan(tuned=Tuned())
        for labels in problem.labels:
            record = plan.penalty(labels[None], c)
            chosen.update(record["lambda"][0] == record["grid"][0, 0, 0])
    assert chosen == {True, False}


def test_names_and_defaults():
    X, codes, _ = make_data(3, 4)
    named = cross_validate(X, codes, reg="tuned", cv=3)
    given = cross_validate(X, codes, reg=Tuned(), cv=3)
    assert_array_equal(named.class_scores, given.class_scores)
    assert named.penalty["grid"].shape == (1, 2)
    assert named.parameters["reg"] == recorded(Tuned())
    assert named.parameters["kernels"] == [{"name": "Linear"}]


# --------------------------------------------------------- what does not change results


@pytest.mark.parametrize("inner", INNER)
@pytest.mark.parametrize("p", [4, 40])
def test_labels_and_folds_at_a_time_do_not_matter(p, inner, monkeypatch):
    problem = Problem(3, p, "unequal", inner, n_permutations=5)
    expected = apply(problem.plan(), problem.labels, 3, want_scores=True)
    monkeypatch.setattr("mvpa_kfda.kfda.foldwise._PIECE", 1)
    plan = problem.plan()
    for i, labels in enumerate(problem.labels):  # the plan is asked again and again
        got = apply(plan, labels[None], 3, want_scores=True)
        assert_array_equal(got.predicted, expected.predicted[:, [i]])
        scores = expected.class_scores[:, :, [i]]
        assert_allclose(got.class_scores, scores, rtol=0, atol=1e-12)
    assert len(plan._observed) <= 3  # what was made of one labelling


def test_the_unit_of_the_data_does_not_matter():
    for p in (4, 40):
        X, codes, _ = make_data(3, p)
        result = cross_validate(X, codes, reg="tuned", cv=3)
        for unit in (1e-6, 1e6):
            other = cross_validate(unit * X, codes, reg="tuned", cv=3)
            assert_allclose(other.lambdas, unit**2 * result.lambdas, rtol=1e-6, atol=0)
            assert_array_equal(other.predictions, result.predictions)


@pytest.mark.parametrize(
    ("cv", "grouped"), [(KFold(5), False), (KFold(10), False), (KFold(10), True)]
)
def test_memory_of_many_trials(cv, grouped):
    n = 2000
    rng = np.random.default_rng(0)
    codes = np.arange(n) % 2
    X = rng.standard_normal((n, 3)) + 0.5 * codes[:, None]
    options = {"kernel": RBF(0.1), "approx": Nystrom(20, "uniform"), "cv": cv}
    options |= {"groups": np.arange(n) % 50 if grouped else None, "reg": [1.0, 0.1]}
    # An (n, n) matrix would be as much.
    assert peak_bytes(cross_validate, X, codes, **options) < 8 * n**2


def test_memory_of_many_folds(monkeypatch):
    monkeypatch.setattr("mvpa_kfda.kfda.foldwise._PIECE", 2**16)
    # It would hide what is looked at here.
    monkeypatch.setattr("mvpa_kfda.decoding.run.keep_freed_memory", lambda: None)
    n = 1000
    X, codes = np.random.default_rng(0).standard_normal((n, 5)), np.arange(n) % 2
    options = {"cv": LeaveOneOut(), "n_permutations": 3}
    fixed, tuned = (
        peak_bytes(cross_validate, X, codes, reg=reg, **options)
        for reg in (1.0, [1.0, 0.1])
    )
    assert tuned < 1.1 * fixed


# ------------------------------------------------------------------ unstable candidates


@pytest.mark.parametrize("inner", INNER)
@pytest.mark.parametrize("outer", ["unequal", "overlapping"])
@pytest.mark.parametrize("many", [256, 1], ids=["shared", "alone"])
def test_unstable_penalties_are_skipped(many, outer, inner, monkeypatch):
    # With fewer trials than features a tiny penalty fits left-out trials exactly.
    monkeypatch.setattr(MANY_TESTED, many)
    problem = Problem(3, 40, outer, inner, n_permutations=1)
    nested = problem.nested()
    tiny = problem.lambdas[0, -1] * np.array([1e-10, 1e-13])
    plan = problem.plan(np.concatenate([problem.lambdas[0], tiny]))
    for i, labels in enumerate(problem.labels):
        record = plan.penalty(labels[None], 3)
        assert np.isnan(record["criterion"][0, :, 0, -2:]).all()
        assert_allclose(
            record["criterion"][0, :, :, :-2], nested.criteria[i], rtol=1e-8, atol=1e-12
        )
        assert_allclose(record["lambda"][0], nested.lambdas[i], rtol=1e-12, atol=0)
    got = apply(plan, problem.labels, 3).predicted.T
    assert_array_equal(got, in_order_of_results(problem.folds, nested.predictions))


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("grouped", [False, True], ids=["leave one out", "groups"])
@pytest.mark.parametrize("n", [120, 1600])
def test_penalties_that_are_unstable_in_some_folds_only(n, grouped, turned):
    # A feature that is there in the last third only: tested by one model, which has
    # not seen it, and fitted exactly without a penalty.
    rng, y = np.random.default_rng(0), np.arange(n) % 2
    X = rng.standard_normal((n, 4)) + 0.2 * y[:, None]
    X[: n - n // 3, 0], X[n - n // 3 :, 0] = 0, rng.permutation(np.arange(n // 3) % 2)
    X[n - n // 3 :, 0] -= 0.5
    if turned:  # so that rounding is everywhere
        X = X @ np.linalg.qr(rng.standard_normal((4, 4)))[0]
    options = {"cv": KFold(3), "groups": np.arange(n) // 8 if grouped else None}
    result = cross_validate(X, y, reg=[1.0, 1e-3, 1e-14, 1e-18], **options)
    unstable = np.isnan(result.penalty["criterion"][:, 0])
    assert_array_equal(unstable, [[False] * 4] * 2 + [[False, False, True, True]])
    alone = cross_validate(X, y, reg=[1.0, 1e-3], **options)
    assert result.lambdas[2] == alone.lambdas[2]
    last = slice(n - n // 3, n)
    assert_array_equal(result.predictions[last], alone.predictions[last])


@pytest.mark.parametrize("dual", [False, True], ids=["features", "kernel matrix"])
def test_a_training_trial_that_is_fitted_exactly(dual):
    # It has a feature of its own. Where it is trained with, it is left out inside.
    rng, y = np.random.default_rng(0), np.arange(60) % 2
    X = rng.standard_normal((60, 4)) + 0.3 * y[:, None]
    X[:, 0] = 0
    X[3, 0] = 1.0
    options = {"cv": KFold(3)}
    if dual:
        X, options["kernel"] = X @ X.T, "precomputed"
    unstable = Tuned([Ridge(lam) for lam in (30.0, 1.0, 1e-13)])
    result = cross_validate(X, y, reg=unstable, **options)
    assert np.isnan(result.penalty["criterion"][:, 0, 2]).all()
    stable = Tuned([Ridge(30.0), Ridge(1.0)])
    alone = cross_validate(X, y, reg=stable, **options)
    assert_array_equal(result.lambdas, alone.lambdas)
    criteria = alone.penalty["criterion"]
    assert_array_equal(result.penalty["criterion"][:, :, :2], criteria)


def test_penalties_beside_which_the_data_vanish_are_skipped():
    problem = Problem(3, 4)
    nested = problem.nested()
    huge = problem.lambdas[0, 0] * np.array([1e12, 1e9])
    plan = problem.plan(np.concatenate([huge, problem.lambdas[0]]))
    record = plan.penalty(problem.labels[:1], 3)
    assert np.isnan(record["criterion"][0, :, 0, :2]).all()
    assert_allclose(record["lambda"][0], nested.lambdas[0], rtol=1e-12, atol=0)


def test_nothing_but_unstable_penalties():
    X, codes, _ = make_data(3, 40)
    message = (
        r"No lambda of the grid can be used, from \S+ to \S+: .*Use penalties nearer"
    )
    for grid in ([Ridge(1e-12), Ridge(1e-13)], [1e-14], [1e7, 1e9]):
        with pytest.raises(ValueError, match=message):
            cross_validate(X, codes, reg=Tuned(grid), cv=3)
        with pytest.raises(ValueError, match=message):
            KernelFDA(reg=Tuned(grid)).fit(X, codes)


@pytest.mark.parametrize("rank", [None, 1, 2])
def test_classes_that_are_told_apart_too_well_for_single_precision(rank):
    rng, n, c = np.random.default_rng(1), 40, 4
    codes = np.arange(n) % c
    X = rng.standard_normal((n, 200)) + 3 * rng.standard_normal((c, 200))[codes]
    options = {"reg": "tuned", "n_components": rank, "cv": 5}
    options |= {"n_permutations": 3, "random_state": 0}
    for dtype in ("float32", "float64"):
        result = cross_validate(X, codes, dtype=dtype, **options)
        assert result.scores >= (0.6 if rank == 1 else 0.95)
        assert np.isfinite(result.null).all()
    model = KernelFDA(reg="tuned", n_components=rank).fit(X, codes)
    assert model.lambda_ > 0


@pytest.mark.parametrize("rank", [None, 1])
@pytest.mark.parametrize("c", COUNTS)
def test_penalties_that_leave_nothing_within_classes_but_rounding_are_skipped(c, rank):
    rng, codes = np.random.default_rng(1), np.arange(40) % c
    X = rng.standard_normal((c, 6))[codes] + 1e-9 * rng.standard_normal((40, 6))
    reg = [1.0, 1e-2, 1e-15, 1e-16, 1e-17]
    result = cross_validate(X, codes, reg=reg, cv=5, n_components=rank)
    criteria = result.penalty["criterion"][:, 0]
    assert np.isfinite(criteria[:, :2]).all()
    assert np.isnan(criteria[:, 2:]).any(axis=1).all()


def test_models_that_cannot_be_used():
    rng = np.random.default_rng(0)
    for c, rank in ((2, None), (3, None), (3, 1), (4, 2)):
        counts = rng.integers(1, 9, (c, 1, 2)).astype(float)
        terms = RuleTerms(counts, contrasts(c), rank)
        share = np.array([1.0, 1e-3])
        fine = terms.scatter * share
        assert usable(fine, terms).all()
        v = rng.standard_normal(c - 1)
        C = terms.scatter[:, :, 0, 0]
        for left in (0.0, -1e-3):  # of the spread along one direction
            w = C @ v
            A = C - (1 - left) * np.outer(w, w) / (v @ w)
            A = np.stack([C, A], axis=2)[:, :, None]
            found = usable(A - 1e-13 * terms.scatter, terms)
            assert_array_equal(found, [[True, False]])
    absent = RuleTerms(np.array([[[3.0]], [[0.0]], [[4.0]]]), contrasts(3))
    assert usable(0.5 * absent.scatter, absent).all()


# ---------------------------------------------------------------------------- bad input


def test_leaving_out_the_only_group_of_a_training_set():
    X, codes, _ = make_data(2, 4)
    groups = np.arange(23) % 2
    with pytest.raises(ValueError, match=r"single group\. Use three or more groups"):
        cross_validate(X, codes, groups=groups, reg="tuned")
    with pytest.raises(ValueError, match="single group"):
        KernelFDA(reg="tuned").fit(X, codes, groups=np.zeros(23))


# ---------------------------------------------------------------------- honest on noise


@pytest.mark.slow
def test_p_values_are_uniform_on_noise():
    p, ties = [], np.random.default_rng(0)
    options = {"reg": np.geomspace(0.01, 10, 5), "cv": 5, "n_permutations": 39}
    for seed in range(200):
        rng = np.random.default_rng(seed)
        X, y = rng.standard_normal((30, 12)), rng.permutation(np.arange(30) % 2)
        result = cross_validate(X, y, random_state=seed, **options)
        larger = (result.null > result.scores + 1e-9).sum()
        tied = (abs(result.null - result.scores) <= 1e-9).sum()
        p.append((larger + ties.uniform() * (1 + tied)) / (1 + len(result.null)))
    assert kstest(p, "uniform").pvalue > 0.01


@pytest.mark.slow
def test_no_leakage_on_noise():
    grid = np.geomspace(1e-4, 1e3, 30)
    honest, leaky = [], []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((40, 20))
        y = rng.permutation(np.arange(40) % 2)
        cv = StratifiedKFold(10)
        tuned = Tuned(grid)
        honest.append(cross_validate(X, y, reg=tuned, cv=cv).scores)
        scores = [cross_validate(X, y, reg=reg, cv=cv).scores for reg in grid]
        leaky.append(max(scores))
    error = np.std(honest) / np.sqrt(len(honest))
    assert abs(np.mean(honest) - 0.5) < 3 * error
    assert np.mean(leaky) > 0.5 + 5 * error
