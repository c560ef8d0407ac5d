"""Tuned penalties equal a nested loop in which every model is trained anew.

The nested loop is ``reference_nested`` of ``reference.py``. What is compared: the
criterion of every candidate, the choice and the predictions of every fold, for the
observed and for permuted labels.
"""

import tracemalloc
from dataclasses import dataclass
from itertools import product

import numpy as np
import pytest
from mvpa_kfda.kfda.criteria import of_usable
from mvpa_kfda.kfda.tuning import (
    BestCandidates,
    inner_plan,
    prepare_candidate,
    tune_spectra,
    tuned_plan,
)
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

import reference
from mvpa_kfda import RBF, KernelFDA, Polynomial, Ridge, Tuned, cross_validate
from mvpa_kfda.kfda import tuning
from mvpa_kfda.kfda.direct import LowRankInverse, apply, make_targets, prepare
from mvpa_kfda.kfda.folds import InnerFolds, Layout, batch_tests, make_folds
from mvpa_kfda.kfda.hat import (
    hat_from_features,
    make_hat,
    spectrum_of,
    spectrum_of_features,
    spectrum_of_gram,
)
from mvpa_kfda.kfda.kernels import Linear
from mvpa_kfda.kfda.rowmaps import Nystrom
from mvpa_kfda.kfda.rules import RuleTerms, contrasts, usable
from mvpa_kfda.utils.record import recorded

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
}
#: How the test sets of an analysis are drawn.
OUTER = {
    "partition": KFold(5, shuffle=True, random_state=1),
    "unequal": KFold(4, shuffle=True, random_state=2),
    "leave one out": LeaveOneOut(),
    "overlapping": ShuffleSplit(4, test_size=6, random_state=0),
}
#: How those within a training set are: the number of groups of all trials, and the
#: same by hand, for a number of rows and their groups.
INNER = {
    "leave one out": (None, lambda n, g: LeaveOneOut().split(np.zeros(n))),
    "groups": (4, lambda n, g: LeaveOneGroupOut().split(np.zeros(n), groups=g)),
    "small groups": (7, lambda n, g: LeaveOneGroupOut().split(np.zeros(n), groups=g)),
}


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
    dtype: str = "float64"
    rank: int | None = None

    def __post_init__(self):
        n_groups, self.by_hand = INNER[self.inner]
        self.X, self.codes, groups = make_data(self.c, self.p, n_groups=n_groups or 4)
        self.groups = groups if n_groups else None
        rng = np.random.default_rng(3)
        shuffled = [rng.permutation(self.codes) for _ in range(self.n_permutations)]
        self.labels = np.array([self.codes, *shuffled])
        self.folds = make_folds(OUTER[self.outer], self.codes)
        self.grams = [KERNELS[name][1](self.X) for name in self.kernels]
        self.lambdas = grid_of(self.grams)

    @property
    def spectra(self):
        return [spectrum_of(self.X, KERNELS[name][0]) for name in self.kernels]

    def plan(self, lambdas=None, kernel=0, folds="outer"):
        """Return the tuned plan of a grid of absolute values, here for one kernel."""
        grid = self.lambdas[kernel] if lambdas is None else lambdas
        folds = self.folds if folds == "outer" else folds
        tuned = Tuned([Ridge(lam) for lam in grid])
        inner = InnerFolds(len(self.X), self.codes, self.groups, folds)
        return tuned_plan(self.spectra, tuned, inner, self.dtype, self.rank)

    def splits(self, train):
        """Return the splits of some training rows."""
        groups = None if self.groups is None else self.groups[train]
        return list(self.by_hand(len(train), groups))

    def nested(self, lambdas=None):
        return reference.reference_nested(
            self.grams,
            self.lambdas if lambdas is None else lambdas,
            self.codes,
            self.folds.pairs,
            self.splits,
            self.labels,
            rank=self.rank,
        )


def in_order_of_results(folds, values):
    """Concatenate the folds' values (P, m, ...) as results come out: by size."""
    order = sorted(range(len(values)), key=lambda i: len(folds.tests[i]))
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


# Every pair of settings is in one of these; all of them together are slow.
PAIRS = [
    (2, 4, "partition", "leave one out"),
    (2, 40, "unequal", "groups"),
    (2, 4, "overlapping", "small groups"),
    (2, 40, "leave one out", "small groups"),
    (2, 4, "unequal", "small groups"),
    (3, 40, "partition", "small groups"),
    (3, 4, "unequal", "leave one out"),
    (3, 40, "overlapping", "groups"),
    (3, 4, "leave one out", "small groups"),
    (3, 40, "partition", "small groups"),
    (5, 4, "leave one out", "small groups"),
    (5, 40, "unequal", "groups"),
    (5, 4, "unequal", "groups"),
    (5, 40, "overlapping", "leave one out"),
    (5, 4, "partition", "small groups"),
]


@pytest.mark.some(4)
@pytest.mark.parametrize(("c", "p", "outer", "inner"), PAIRS)
def test_equals_the_nested_loop(c, p, outer, inner):
    problem = Problem(c, p, outer, inner)
    plan = problem.plan()
    assert plan.spectra[0].is_primal == (p == 4)
    assert_equals_nested(problem, plan, problem.nested())


@pytest.mark.slow
@pytest.mark.parametrize("inner", INNER)
@pytest.mark.parametrize("outer", OUTER)
@pytest.mark.parametrize("p", [4, 40])
@pytest.mark.parametrize("c", COUNTS)
def test_equals_the_nested_loop_in_all_settings(c, p, outer, inner):
    problem = Problem(c, p, outer, inner, n_permutations=1)
    assert_equals_nested(problem, problem.plan(), problem.nested())


def test_the_settings_choose_differently():
    # Else the tests above could not fail: folds and labellings disagree.
    nested = Problem(5, 4, inner="small groups", n_permutations=1).nested()
    assert len(np.unique(nested.lambdas)) > 1
    assert (nested.lambdas[0] != nested.lambdas[1]).any()


@pytest.mark.parametrize(
    ("kernels", "p"),
    [(("linear", "rbf", "wide rbf"), 4), (("polynomial", "linear"), 40)],
)
def test_kernel_and_penalty_are_chosen_together(kernels, p):
    problem = Problem(3, p, "unequal", "small groups", kernels, 1)
    problem.lambdas = np.tile(problem.lambdas.mean(axis=0), (len(kernels), 1))
    nested = problem.nested()
    assert len(np.unique(nested.kernels)) > 1
    assert_equals_nested(problem, problem.plan(problem.lambdas[0]), nested)


def test_reduced_rank_predicts_with_what_is_chosen_for_all_discriminants():
    problem = Problem(5, 6, "unequal", "small groups", rank=1)
    assert_equals_nested(problem, problem.plan(), problem.nested())


@pytest.mark.parametrize("p", [4, 40])
def test_single_precision_is_close(p):
    single = Problem(3, p, "unequal", dtype="float32").plan()
    problem = Problem(3, p, "unequal")
    double = problem.plan()
    for labels in problem.labels:
        got, expected = (
            plan.penalty(labels[None], 3)["criterion"] for plan in (single, double)
        )
        assert_allclose(got, expected, rtol=1e-4, atol=1e-4)
    assert single.penalty(problem.labels[:1], 3)["lambda"].dtype == float
    got, expected = (apply(plan, problem.labels, 3) for plan in (single, double))
    assert (got.predicted == expected.predicted).mean() > 0.95


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


@pytest.mark.parametrize("p", [4, 40])
def test_choice_on_all_trials(p):
    problem = Problem(3, p, inner="small groups")
    tuned = Tuned([Ridge(lam) for lam in problem.lambdas[0]])
    rows = np.arange(len(problem.codes))
    everything = [np.arange(len(rows)), problem.splits(rows)]
    _, lam, criteria = reference.choose(
        problem.grams, problem.lambdas, problem.codes, *everything, 3
    )
    spectra = [spectrum_of_gram(K) for K in problem.grams]
    choice = tune_spectra(spectra, tuned, problem.codes, 3, problem.groups)
    assert choice.kernel == 0
    assert choice.lam == pytest.approx(lam, rel=1e-12)
    assert_allclose(choice.lambdas, problem.lambdas, rtol=1e-12, atol=0)
    assert_allclose(choice.criterion, criteria, rtol=1e-8, atol=0)
    without_folds = problem.plan(folds=None).penalty(problem.labels[:1], 3)
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
def test_by_default_two_penalties_are_without_labels(c, p, groups):
    """One of them is chosen by generalized cross-validation, or by groups left out."""
    problem = Problem(c, p, "unequal", n_permutations=3)
    X, codes, n = problem.X, problem.codes, len(problem.codes)
    groups = groups(n)
    K = linear_kernel(X - X.mean(axis=0))
    found = reference.label_free(K, p, groups)
    lambdas = np.sort([[found.like_noise, found.anywhere]])[:, ::-1]

    def splits(train):
        if groups is None or len(np.unique(groups)) == n:
            return None
        return list(LeaveOneGroupOut().split(train, groups=groups[train]))

    inner = InnerFolds(n, codes, groups, problem.folds)
    double, single = (
        tuned_plan(problem.spectra, Tuned(), inner, dtype)
        for dtype in ("float64", "float32")
    )
    assert_allclose(double.lambdas, lambdas, rtol=1e-6, atol=0)
    nested = reference.reference_nested(
        [K],
        double.lambdas,
        codes,
        problem.folds.pairs,
        splits,
        problem.labels,
    )
    assert_equals_nested(problem, double, nested)
    record = single.penalty(problem.labels[:1], c)
    assert_allclose(record["criterion"][0], nested.criteria[0], rtol=1e-3, atol=0)
    chosen = KernelFDA(reg="tuned").fit(X, codes, groups=groups).tuning_
    rows = np.arange(n)
    of_all = reference.choose([K], lambdas, codes, rows, splits(rows), c)
    assert_allclose(chosen.criterion, of_all[2], rtol=1e-6)
    assert_allclose(chosen.lam, of_all[1], rtol=1e-6)


@pytest.mark.parametrize("kernels", [("linear", "wide rbf"), ("rbf",)])
def test_kernels_that_are_not_linear_are_tuned_over_their_spectra(kernels):
    problem = Problem(3, 6, "unequal", kernels=kernels)
    inner = InnerFolds(len(problem.X), problem.codes, None, problem.folds)
    plan = tuned_plan(problem.spectra, Tuned(), inner, "float64")
    lambdas = [reference.lambdas_over_spectrum(K) for K in problem.grams]
    assert_allclose(plan.lambdas, lambdas, rtol=1e-6, atol=0)
    nested = reference.reference_nested(
        problem.grams,
        plan.lambdas,
        problem.codes,
        problem.folds.pairs,
        lambda train: None,
        problem.labels,
    )
    assert len(np.unique(nested.kernels)) == len(kernels)
    # The smallest of them leave few digits of squared residuals.
    assert_equals_nested(problem, plan, nested, rtol=1e-3)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_large_test_sets_of_features_need_no_blocks(dtype, monkeypatch):
    problem = Problem(3, 4, n_permutations=5, dtype=dtype)
    folds = make_folds(KFold(2), problem.codes)
    inner = InnerFolds(len(problem.X), problem.codes, None, folds)

    def criteria():
        plan = tuned_plan(problem.spectra, Tuned(), inner, dtype)
        found = [plan.penalty(each[None], 3)["criterion"] for each in problem.labels]
        return np.array(found), apply(plan, problem.labels, 3).predicted, plan

    expected = criteria()
    monkeypatch.setattr("mvpa_kfda.kfda.direct._LARGE_FOLD", 1)
    found = criteria()
    kinds = {type(each) for each in found[2]._prepared(0).plan.inverses}
    assert kinds == {LowRankInverse}
    rtol = {"float64": 1e-9, "float32": 1e-4}[dtype]
    assert_allclose(found[0], expected[0], rtol=rtol)
    assert_array_equal(found[1], expected[1])


def test_labels_choose_one_or_the_other():
    # Else the test above could not fail.
    chosen = set()
    for c, p in product(COUNTS, (4, 12, 40)):
        problem = Problem(c, p, "unequal", n_permutations=3)
        inner = InnerFolds(len(problem.X), problem.codes, None, problem.folds)
        plan = tuned_plan(problem.spectra, Tuned(), inner, "float64")
        for labels in problem.labels:
            chosen.update(
                plan.penalty(labels[None], c)["lambda"][0] == plan.lambdas[0, 0]
            )
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


@pytest.mark.parametrize("p", [4, 40])
def test_batches_of_permutations_do_not_matter(p):
    X, codes, _ = make_data(3, p)
    options = {"reg": "tuned", "cv": 3, "n_permutations": 7}
    results = [
        cross_validate(X, codes, **options, random_state=0, batch_size=size)
        for size in (None, 1, 3)
    ]
    for result in results[1:]:
        assert_array_equal(result.null, results[0].null)
        assert_array_equal(result.lambdas, results[0].lambdas)


@pytest.mark.parametrize("p", [4, 40])
def test_folds_handled_at_a_time_do_not_matter(p, monkeypatch):
    problem = Problem(3, p, "unequal")
    together = problem.plan().penalty(problem.labels[:1], 3)["criterion"]
    monkeypatch.setattr("mvpa_kfda.kfda.criteria._PIECE", 1)
    one_by_one = problem.plan().penalty(problem.labels[:1], 3)["criterion"]
    assert_allclose(one_by_one, together, rtol=1e-12, atol=0)


def test_nothing_is_kept_of_permutations():
    # They may be as many as 10,000, with a label vector to a batch.
    problem = Problem(3, 4, n_permutations=5)
    plan, sizes = problem.plan(), []
    expected = apply(problem.plan(), problem.labels, 3).predicted
    for i, labels in enumerate(problem.labels):
        got = apply(plan, labels[None], 3).predicted
        assert_array_equal(got, expected[:, [i]])
        sizes.append(len(plan._candidates) + len(plan._observed))
    assert len(set(sizes)) == 1


def test_the_unit_of_the_data_does_not_matter():
    X, codes, _ = make_data(3, 4)
    result = cross_validate(X, codes, reg="tuned", cv=3)
    for unit in (1e-6, 1e6):
        other = cross_validate(unit * X, codes, reg="tuned", cv=3)
        assert_allclose(other.lambdas, unit**2 * result.lambdas, rtol=1e-6, atol=0)
        assert_array_equal(other.predictions, result.predictions)


@pytest.mark.parametrize(("most", "times"), [(2**28, 1), (0, 3)])
def test_candidates_that_are_not_kept_are_prepared_again(most, times, monkeypatch):
    problem, prepared = Problem(3, 40, "unequal", "small groups"), []
    expected = apply(problem.plan(), problem.labels, 3).predicted

    original = tuning.prepare_candidate

    def prepare_candidate(*arguments):
        prepared.append(arguments)
        return original(*arguments)

    monkeypatch.setattr(tuning, "prepare_candidate", prepare_candidate)
    monkeypatch.setattr(tuning, "_MOST", most)
    plan = problem.plan()
    for _ in range(3):
        assert_array_equal(apply(plan, problem.labels, 3).predicted, expected)
    assert len(prepared) == times * problem.lambdas.size


@pytest.mark.some(3)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("inner", ["small groups", "groups"])
def test_inner_folds_of_features_need_no_blocks(inner, dtype, monkeypatch):
    problem = Problem(3, 4, "unequal", inner, dtype=dtype)
    expected = problem.plan().penalty(problem.labels[:1], 3)
    on_all = problem.plan(folds=None).penalty(problem.labels[:1], 3)
    monkeypatch.setattr(tuning, "is_low_rank", lambda hat, m: hat.residual is None)
    plan = problem.plan()
    inverses = plan._prepared(0).within(0, 0).inverses
    assert {type(each) for each in inverses} == {LowRankInverse}
    assert {each.core.dtype for each in inverses} == {np.dtype(dtype)}
    tolerance = {"float64": 1e-10, "float32": 1e-4}[dtype]
    for record, one in (
        (plan.penalty(problem.labels[:1], 3), expected),
        (problem.plan(folds=None).penalty(problem.labels[:1], 3), on_all),
    ):
        got, criteria = record["criterion"], one["criterion"]
        assert_allclose(got, criteria, rtol=tolerance, atol=tolerance)
    if dtype == "float64":
        assert_equals_nested(problem, plan, problem.nested())


def test_inner_folds_of_features_that_are_fitted_exactly(monkeypatch):
    monkeypatch.setattr(tuning, "is_low_rank", lambda hat, m: hat.residual is None)
    # One feature is there in the left-out trials of an outer and of an inner fold only.
    problem = Problem(3, 4, "unequal", "small groups", n_permutations=0)
    train, _ = problem.folds.pairs[0]
    _, test = problem.splits(train)[0]
    problem.X[:, 0] = 0.0
    problem.X[train[test], 0] = np.resize([1.0, -1.0], len(test))
    plan = problem.plan([30.0, 1e-14])
    candidate = plan._prepared(1)
    unstable = [
        [candidate.within(i, fold) is None for fold in range(batch.k)]
        for i, batch in enumerate(plan.batches)
    ]
    assert any(each for some in unstable for each in some)
    criteria = plan.penalty(problem.labels[:1], 3)["criterion"][0, :, 0]
    assert np.isfinite(criteria[:, 0]).all()
    assert np.isnan(criteria[0, 1])


def test_memory_of_many_trials():
    n = 2000
    rng = np.random.default_rng(0)
    codes = np.arange(n) % 2
    X = rng.standard_normal((n, 3)) + 0.5 * codes[:, None]
    options = {"kernel": RBF(0.1), "approx": Nystrom(20, "uniform"), "reg": "tuned"}
    options |= {"groups": np.arange(n) % 5}
    # Blocks of 320 left-out trials would be 4 MB in each of 5 folds, 20 times.
    assert peak_bytes(cross_validate, X, codes, **options) < 90e6


def test_memory_of_folds_within_many_folds(monkeypatch):
    monkeypatch.setattr("mvpa_kfda.kfda.tuning._MOST", 2**18)
    # It would hide what is looked at here.
    monkeypatch.setattr("mvpa_kfda.decoding.run.keep_freed_memory", lambda: None)
    n = 60
    X, codes = np.random.default_rng(0).standard_normal((n, 5)), np.arange(n) % 2
    options = {"reg": Tuned([1.0, 0.1]), "cv": LeaveOneOut(), "n_permutations": 30}
    options |= {"groups": np.arange(n) % 4 // 2}
    # There are 120 blocks of 30 left-out trials, 0.9 MB for each of 2 candidates.
    assert peak_bytes(cross_validate, X, codes, **options) < 1.25 * 2**20


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("p", [4, 40])
@pytest.mark.parametrize("inner", ["small groups", "leave one out"])
def test_memory_is_counted(inner, p, dtype):
    problem = Problem(3, p, "unequal", inner, dtype=dtype)
    plan = problem.plan()
    apply(plan, problem.labels, 3)
    candidate = plan._prepared(0)
    hats, seen = [candidate.hat, candidate.plan.hat], {}
    for hat in hats:
        for each in (hat.residual, hat.factor):
            if each is not None:
                seen[id(each)] = each.nbytes
    plans = [each for each in candidate._inner_plans.values()]
    pieces = [*candidate.solvers, *candidate.plan.inverses]
    inner_inverses = [each for plan in plans for each in plan.inverses]
    for each in pieces + inner_inverses:
        seen[id(each.matrix)] = each.matrix.nbytes
    total = sum(seen.values()) + sum(each.nbytes for each in candidate.weights)
    left_out = {"small groups": None, "leave one out": "exact"}[inner]
    counted = tuning.count_bytes(candidate.hat, plan.inner, plan.dtype, left_out)
    assert counted == total
    more = prepare_candidate(candidate.hat, plan.inner, plan.dtype, None, "equal")
    kept = [value for each in more.squares for value in vars(each).values()]
    of_squares = sum(getattr(each, "nbytes", 0) for each in kept)
    without = total - sum(each.nbytes for each in candidate.weights)
    without -= sum(each.matrix.nbytes for each in inner_inverses)
    counted = tuning.count_bytes(candidate.hat, plan.inner, plan.dtype, "equal")
    assert without + 0.9 * of_squares < counted < without + 3 * of_squares


# ------------------------------------------------------------------ unstable candidates


@pytest.mark.parametrize("inner", ["small groups", "leave one out"])
@pytest.mark.parametrize("outer", ["unequal", "overlapping"])
def test_unstable_penalties_are_skipped(outer, inner):
    # With fewer trials than features a tiny penalty fits left-out trials exactly.
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


@pytest.mark.parametrize(("n", "n_groups"), [(120, None), (120, 5), (1600, None)])
def test_penalties_that_are_unstable_in_some_folds_only(n, n_groups):
    # A feature that is there in the last third only: tested by one model, which has
    # not seen it, and fitted exactly without a penalty.
    rng, y = np.random.default_rng(0), np.arange(n) % 2
    X = rng.standard_normal((n, 4)) + 0.2 * y[:, None]
    X[: n - n // 3, 0], X[n - n // 3 :, 0] = 0, rng.permutation(np.arange(n // 3) % 2)
    X[n - n // 3 :, 0] -= 0.5
    options = {"cv": KFold(3), "n_permutations": 2, "random_state": 0}
    if n_groups is not None:
        options |= {"groups": np.arange(n) % n_groups, "permute": "free"}
    tuned = Tuned([1.0, 1e-3, 1e-14, 1e-18])
    result = cross_validate(X, y, reg=tuned, **options)
    unstable = np.isnan(result.penalty["criterion"][:, 0])
    assert_array_equal(unstable[:, :2], np.zeros((3, 2), bool))
    assert_array_equal(unstable[:, 2:], [[False] * 2, [False] * 2, [True] * 2])
    stable = Tuned([1.0, 1e-3])
    alone = cross_validate(X, y, reg=stable, **options)
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


def test_a_candidate_is_of_no_use_where_its_model_is():
    X, codes, _ = make_data(3, 4)
    plan = prepare(make_hat(X, Linear(), 1.0), make_folds(KFold(5), codes))
    targets = make_targets(np.stack([codes, codes[::-1]]), 3, plan.layout, plan.dtype)
    (model,) = plan.fold_models(targets)
    A, expected = model.A.copy(), np.ones((5, 2))
    assert_array_equal(of_usable(expected, A, model.targets.terms), expected)
    A[:, :, 2, 0] *= -1
    expected[2, 0] = np.nan
    assert_array_equal(of_usable(np.ones((5, 2)), A, model.targets.terms), expected)
    assert_array_equal(of_usable(np.ones((5, 2)), None, None), np.ones((5, 2)))


def test_what_differs_by_rounding_is_as_good():
    for dtype, rounding, more in (("float64", 1e-12, 1e-7), ("float32", 3e-7, 1e-4)):
        T = np.zeros((1, 4, 2), dtype)
        chosen = BestCandidates.none_yet(T, 1, 4, 3, with_A=False)
        E = np.zeros((1, 1, 4, 2), dtype)
        for number, criterion in enumerate((1.0, 1 - rounding, 1 - more)):
            values = np.array([[criterion, min(criterion, 1 - rounding)]], dtype)
            chosen.offer(number, values, E, None)
            assert chosen.choice[0, 0] == (number if number != 1 else 0)
        assert chosen.best[0, 0] == dtype_value(1 - more, dtype)


def dtype_value(value, dtype):
    return np.array(value, dtype)[()]


def test_a_spectrum_in_another_order():
    X, _, _ = make_data(3, 4)
    order = np.random.default_rng(0).permutation(len(X))
    for spectrum in (spectrum_of_features(X), spectrum_of_gram(linear_kernel(X))):
        expected = spectrum.hat(2.0).matrix[np.ix_(order, order)]
        other = spectrum.reordered(order)
        assert_allclose(other.hat(2.0).matrix, expected, rtol=0, atol=1e-13)
        assert_allclose(
            other.moments.diagonal, spectrum.moments.diagonal[order], rtol=0, atol=0
        )


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
    for seed in range(200):
        rng = np.random.default_rng(seed)
        X, y = rng.standard_normal((30, 12)), rng.permutation(np.arange(30) % 2)
        result = cross_validate(
            X,
            y,
            reg=Tuned(np.geomspace(0.01, 10, 5)),
            cv=5,
            n_permutations=39,
            random_state=seed,
        )
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


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_single_precision_refuses_what_it_cannot_resolve(dtype):
    # Without the last group two trials are left for two features: all but the penalty
    # is singular, and residuals in single precision times its inverse are noise.
    X = np.random.default_rng(0).standard_normal((5, 2))
    tests = [np.array([0, 1]), np.array([2, 3, 4])]
    layout = Layout(np.arange(5), np.empty(5, int), batch_tests(tests))
    plans = [
        inner_plan(hat_from_features(X, Ridge(lam)), None, None, layout, dtype)
        for lam in (1e-6, 1e-2)
    ]
    assert [plan is None for plan in plans] == [dtype == "float32", False]
