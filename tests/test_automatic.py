"""``reg="auto"``: the penalty that every training set chooses in closed form.

The oracle (`reference.auto_penalty`) forms the residual maker of every lambda, and
trains the chosen model anew. Other tests of what all penalties have in common are in
test_contract.py, test_methods.py and test_foldwise.py.
"""

from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.metrics.pairwise import linear_kernel, polynomial_kernel, rbf_kernel
from sklearn.model_selection import (
    KFold,
    LeaveOneGroupOut,
    LeaveOneOut,
    PredefinedSplit,
    ShuffleSplit,
    StratifiedKFold,
)

import build
import reference
from mvpa_kfda import (
    RBF,
    KernelFDA,
    Nystrom,
    Polynomial,
    Ridge,
    cross_validate,
    decode_arrays,
    decode_epochs,
    generalize_arrays,
    regress,
)
from mvpa_kfda.decoding import positions
from mvpa_kfda.kfda import automatic, foldbases, foldwise, leaveoneout
from mvpa_kfda.kfda.folds import make_folds
from mvpa_kfda.kfda.kernels import Linear

SEED = 3


@dataclass(frozen=True)
class Case:
    """Data, and how they are cross-validated."""

    counts: tuple
    p: int
    cv: object = KFold(4)
    n_groups: int | None = None
    separation: float = 0.6
    kernel: object = "linear"
    gram: object = staticmethod(linear_kernel)
    spoil: object = None

    @property
    def data(self):
        """Features, codes and groups."""
        X, y = build.features(self.counts, self.p, SEED, self.separation)
        if self.spoil is not None:
            X = self.spoil(X)
        groups = None
        if self.n_groups is not None:
            groups = build.groups_of(len(y), self.n_groups)
            groups[0] = groups[-1]  # of unequal size, and not in order
        return X, y, groups

    @property
    def folds(self):
        """The folds as explicit sets."""
        X, y, groups = self.data
        return list(self.cv.split(X, y, groups))


def constant(X):
    X = X.copy()
    X[:, 1] = 5.0
    X[:9, 2] = 7.0  # in the test set of a fold, and there alone different
    X[9:, 2] = 1.0
    return X


def alike(X):
    X = X.copy()
    X[:, 1] = X[:, 0]
    X[5:8] = X[4]
    return X


def far(X):
    X = X.copy()
    X[3] *= 1e4
    return X


def farther(X):
    X = X.copy()
    X[3] *= 1e7
    return X


CASES = {
    "two classes": Case((20, 20), 6),
    "more features": Case((20, 20), 60),
    "as many features": Case((20, 20), 30),
    "three": Case((12, 14, 13), 8),
    "three, more features": Case((12, 14, 13), 80),
    "unequal": Case((25, 9, 5), 10, separation=1.0),
    "ten": Case((6,) * 10, 20, separation=1.5),
    "no effect": Case((20, 20), 10, separation=0.0),
    "strong": Case((12, 12, 12), 5, separation=8.0),
    "one feature": Case((15, 15, 15), 1),
    "a rare class": Case((18, 18, 2), 9, separation=1.0),
    "leave one out": Case((9, 9, 9), 5, LeaveOneOut()),
    "leave one out, more features": Case((9, 9, 9), 40, LeaveOneOut()),
    "leave one out, two classes": Case((13, 11), 30, LeaveOneOut()),
    "leave one out, as many features": Case((13, 11), 23, LeaveOneOut()),
    "leave one out, ten": Case((3,) * 10, 12, LeaveOneOut(), separation=1.5),
    "leave one out, one feature": Case((12, 14), 1, LeaveOneOut()),
    "leave one out, trials alike": Case((14, 14), 60, LeaveOneOut(), spoil=alike),
    "leave one out, far away": Case((12, 12), 6, LeaveOneOut(), spoil=far),
    "one out again and again": Case(
        (9, 7), 12, ShuffleSplit(16, test_size=1, random_state=0)
    ),
    "leave one out, rbf": Case(
        (11, 11),
        5,
        LeaveOneOut(),
        kernel=RBF(0.05),
        gram=partial(rbf_kernel, gamma=0.05),
    ),
    "overlapping": Case((15, 15), 6, ShuffleSplit(4, test_size=9, random_state=0)),
    "a part": Case(
        (15, 15, 15), 6, ShuffleSplit(3, test_size=9, train_size=20, random_state=0)
    ),
    "runs": Case((20, 20), 6, LeaveOneGroupOut(), 5),
    "runs, more features": Case((14, 14, 14), 70, LeaveOneGroupOut(), 6),
    "runs, three": Case((14, 14, 14), 9, LeaveOneGroupOut(), 6),
    "pairs of trials": Case((14, 14, 14), 9, LeaveOneGroupOut(), 20),
    "two runs": Case((14, 14), 9, LeaveOneGroupOut(), 2),
    "runs across folds": Case((20, 20), 6, KFold(4, shuffle=True, random_state=0), 5),
    "every trial its run": Case((15, 15), 6, KFold(5), 30),
    "rbf": Case(
        (14, 14, 14), 5, kernel=RBF(0.05), gram=lambda X: rbf_kernel(X, gamma=0.05)
    ),
    "polynomial": Case(
        (14, 14, 14),
        5,
        LeaveOneGroupOut(),
        6,
        kernel=Polynomial(2, 0.1, 2.0),
        gram=lambda X: polynomial_kernel(X, degree=2, gamma=0.1, coef0=2.0),
    ),
    "constant features": Case((18, 18), 6, spoil=constant),
    "features and trials alike": Case((18, 18), 6, spoil=alike),
    "trials alike": Case((18, 18), 60, spoil=alike),
    "far away": Case((18, 18), 6, spoil=far),
    "far away, tested": Case(
        (18, 18), 6, PredefinedSplit(9 * [0] + 27 * [-1]), spoil=farther
    ),
}
every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def group_of(groups, rows):
    """Return the groups that are left out within some rows, if there are any."""
    if groups is None or not 1 < len(np.unique(groups[rows])) < len(rows):
        return None
    return groups[rows]


def refit(K, labels, groups, train, n_classes):
    """Return lambda of a training set, and the errors by which it was chosen."""
    inside = K[np.ix_(train, train)]
    return reference.auto_penalty(
        inside, labels[train], n_classes, group_of(groups, train)
    )


@pytest.mark.parametrize("few", [0, np.inf], ids=["large groups", "small groups"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("p", [9, 70])
def test_both_ways_to_handle_groups_are_the_same(p, dtype, few, monkeypatch):
    X, y = build.features((14, 14, 14), p, SEED)
    groups = build.groups_of(42, 5)
    options = {"groups": groups, "reg": "auto", "n_permutations": 9, "random_state": 0}
    values = build.values_of(X)
    expected = cross_validate(X, y, **options), regress(X, values, **options)
    monkeypatch.setattr(automatic, "_FEW", few)
    monkeypatch.setattr(foldbases, "_MANY", 1)
    options["dtype"] = dtype
    atol = 1e-7 if dtype == "float64" else 1e-4
    for result, one in zip(
        (cross_validate(X, y, **options), regress(X, values, **options)),
        expected,
        strict=True,
    ):
        found = result.penalty["criterion"][..., :12]  # no less, in single precision
        assert_allclose(found, one.penalty["criterion"][..., :12], rtol=0, atol=atol)
        if dtype == "float64":
            assert_allclose(result.lambdas, one.lambdas, rtol=1e-8)
            assert_allclose(result.null, one.null, rtol=0, atol=1e-6)


@pytest.mark.filterwarnings("ignore:No trial of class")
@pytest.mark.filterwarnings("ignore:The class of a trial")
@pytest.mark.filterwarnings("ignore:Class .* is absent")
@pytest.mark.filterwarnings("ignore:.*training set.*")
@every_case
def test_equals_refits(case, monkeypatch):
    monkeypatch.setattr(foldbases, "_MANY", 2)  # all but the observed labels
    X, y, groups = case.data
    c, folds = len(case.counts), case.folds
    options = {"kernel": case.kernel, "reg": "auto", "cv": folds, "permute": "free"}
    result = cross_validate(
        X, y, groups=groups, n_permutations=4, random_state=0, **options
    )
    grams = [
        case.gram(X - X[train].mean(axis=0) if case.kernel == "linear" else X)
        for train, _ in folds
    ]
    labels = build.permuted(y, 4, folds, groups, seed=0, permute="free")
    for i, each in enumerate(labels):
        hits, n_tested = 0, 0
        for number, (train, test) in enumerate(folds):
            K = grams[number]
            lam, errors = refit(K, each, groups, train, c)
            predicted, _ = reference.predict_rows(K, each, train, test, lam, c)
            hits += np.sum(predicted == each[test])
            n_tested += len(test)
            if i:
                continue
            assert_allclose(result.lambdas[number], lam, rtol=1e-6)
            found = result.penalty["criterion"][number, 0]
            assert_allclose(found, errors, rtol=1e-5, atol=1e-8)
            df = reference_df(K[np.ix_(train, train)], lam)
            assert_allclose(result.degrees_of_freedom[number], df, rtol=1e-6)
        score = result.null[i - 1] if i else result.scores
        assert_allclose(score, hits / n_tested, rtol=0, atol=1e-12)


#: With linear kernels, and without classes that a fold does not train on.
WITH_PATTERNS = (
    *("two classes", "three", "three, more features", "constant features"),
    *("leave one out", "leave one out, more features", "leave one out, far away"),
    *("overlapping", "a part", "runs", "runs, more features", "runs across folds"),
)


@pytest.mark.filterwarnings("ignore:No trial of class")
@pytest.mark.filterwarnings("ignore:The class of a trial")
@pytest.mark.filterwarnings("ignore:.*training set.*")
@pytest.mark.parametrize("name", WITH_PATTERNS)
def test_patterns_of_folds_are_those_of_the_chosen_models(name):
    case = CASES[name]
    X, y, groups = case.data
    epochs = build.epochs(X[:, :, None], y)  # of microvolts
    result = decode_epochs(epochs, y, groups=groups, reg="auto", cv=case.folds)
    of_folds = []
    for (train, _), lam in zip(case.folds, result.lambdas[0] * 1e12, strict=True):
        K, codes = case.gram(X[train] - X[train].mean(axis=0)), y[train]
        scores = reference.fit(K, codes, lam, len(case.counts)).transform(K)
        joint, p = np.cov(X[train], scores, rowvar=False), X.shape[1]
        A = joint[:p, p:] @ np.linalg.inv(joint[p:, p:])  # Haufe et al. (2014)
        of_folds.append(
            [
                A @ (scores[codes == k].mean(axis=0) - scores.mean(axis=0))
                for k in range(len(case.counts))
            ]
        )
    expected = np.mean(of_folds, axis=0)
    found = result.pattern_maps["class_folds"][0] * 1e6
    assert_allclose(found, expected, rtol=0, atol=1e-7 * np.abs(expected).max())


def reference_df(K, lam):
    s = np.linalg.eigvalsh(reference.center(K, K))
    return 1 + (s / (s + lam)).sum()


def test_cases_choose_differently():
    chosen = {}
    for name, case in CASES.items():
        X, y, groups = case.data
        K = case.gram(X)
        numbers = []
        for train, _ in case.folds:
            lam, _ = refit(K, y, groups, train, len(case.counts))
            w = np.linalg.eigvalsh(reference.center(*[K[np.ix_(train, train)]] * 2))[-1]
            numbers.append(np.log10(lam / w))
        chosen[name] = numbers
    spread = np.concatenate(list(chosen.values()))
    assert spread.max() == pytest.approx(0.875)  # the largest of all
    assert spread.min() < -4
    assert len(np.unique(spread.round(6))) > 7


@pytest.mark.parametrize("p", [6, 60])
@pytest.mark.parametrize("n_groups", [None, 5, "leave one out"])
@pytest.mark.parametrize("steps", [None, "zscore"])
def test_numbers_are_predicted_as_by_refits(p, n_groups, steps):
    X, _ = build.features((20, 20), p, SEED)
    y, groups = build.values_of(X), None
    cv = list(KFold(4).split(X))
    if n_groups == "leave one out":
        cv, n_groups = list(LeaveOneOut().split(X)), None
    if n_groups is not None:
        groups = build.groups_of(len(y), n_groups)
        cv = list(LeaveOneGroupOut().split(X, y, groups))
    result = regress(X, y, groups=groups, cv=cv, reg="auto", preprocess=steps)
    for number, (train, test) in enumerate(cv):
        Z = X
        if steps:
            Z = (X - X[train].mean(axis=0)) / X[train].std(axis=0)
        K = linear_kernel(Z)
        lam, errors = refit(K, y, groups, train, None)
        assert_allclose(result.lambdas[number], lam, rtol=1e-6)
        found = result.penalty["criterion"][number, 0]
        assert_allclose(found, errors, rtol=1e-5, atol=1e-8)
        inside, across = K[np.ix_(train, train)], K[np.ix_(test, train)]
        predicted = reference.regress(inside, across, y[train, None], lam)[:, 0]
        assert_allclose(result.predicted[test], predicted, rtol=1e-8)


@pytest.mark.parametrize("cv", [KFold(4), LeaveOneOut()], ids=["4", "one out"])
def test_numbers_without_noise_are_predicted_without_error(cv):
    X, _ = build.features((20, 20), 6, SEED)
    result = regress(X, 3 * X[:, 0] + 7, cv=cv, reg="auto", scoring="r2")
    assert result.scores > 1 - 1e-6


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(("p", "c"), [(5, 2), (30, 2), (60, 3), (60, 7)])
def test_both_ways_to_leave_one_out_are_the_same(p, c, dtype, monkeypatch):
    X, y = build.features((30 // c,) * c, p, SEED)
    order = np.random.default_rng(0).permutation(len(y))
    plan = plan_of(X[order], LeaveOneOut(), y[order], dtype)
    labels = build.permuted(y[order], 20, plan.folds.pairs, seed=0, permute="free")
    found, record = [*plan.predict(labels, c, True)], plan.penalty(labels[:1], c)
    fitted = [*plan.fitted(labels[0], c)]
    assert plan._one_left_out is not None
    monkeypatch.setattr(leaveoneout, "_CACHE_BYTES", 1)  # one trial at a time
    (again,) = plan_of(X[order], LeaveOneOut(), y[order], dtype).predict(labels, c)
    assert_array_equal(again.predicted, found[0].predicted)
    monkeypatch.setattr(foldwise.FoldwisePlan, "_one_left_out", None)
    by_folds = plan_of(X[order], LeaveOneOut(), y[order], dtype)
    (expected,) = by_folds.predict(labels, c, True)
    exact = dtype == "float64"
    atol = 1e-8 if exact else 1e-3
    size = np.abs(expected.class_scores).max()
    assert np.mean(found[0].predicted == expected.predicted) > (0.999 if exact else 0.9)
    if exact:
        scores = found[0].class_scores
        assert_allclose(scores, expected.class_scores, rtol=0, atol=atol * size)
    for name, values in by_folds.penalty(labels[:1], c).items():
        assert_allclose(record[name], values, rtol=1e-7 if exact else 1e-3, atol=atol)
    for (train, mine), (rows, others) in zip(
        fitted, by_folds.fitted(labels[0], c), strict=True
    ):
        assert_array_equal(train, rows)
        assert_allclose(mine, others, rtol=0, atol=atol)


def plan_of(X, cv, y, dtype):
    folds = make_folds(cv, y)
    task = SimpleNamespace(
        folds=folds, inner=automatic.TrialGroups(None), dtype=dtype, rank=None
    )
    source = foldbases.Source.of(X, Linear(), len(y) - 1)
    return foldwise.auto_plan(source, task)


def test_one_far_trial_is_left_out_by_a_decomposition_of_its_own():
    X, y = build.features((12, 12), 6, SEED)
    assert plan_of(X, LeaveOneOut(), y, "float64")._one_left_out is not None
    assert plan_of(X, KFold(24), y, "float64")._one_left_out is not None
    assert plan_of(X, KFold(12), y, "float64")._one_left_out is None
    assert plan_of(far(X), LeaveOneOut(), y, "float64")._one_left_out is None


@pytest.mark.parametrize("kernel", ["linear", "rbf", RBF(0.05)], ids=str)
@pytest.mark.parametrize("p", [5, 50])
def test_the_estimator_chooses_as_the_folds_do(kernel, p):
    X, y = build.features((12, 12, 12), p, SEED)
    groups = np.arange(36) // 6
    # Folds that train on a part learn all of their kernel from that part, too.
    cv = [(train[1:], test) for train, test in KFold(3).split(X)]
    for given in (None, groups):
        result = cross_validate(X, y, groups=given, cv=cv, kernel=kernel, reg="auto")
        for number, (train, test) in enumerate(cv):
            inside = None if given is None else given[train]
            model = KernelFDA(kernel, "auto").fit(X[train], y[train], groups=inside)
            assert_allclose(model.lambda_, result.lambdas[number], rtol=1e-8)
            assert_array_equal(model.predict(X[test]), result.predictions[test])
            choice = model.tuning_
            assert choice.lambdas.shape == choice.criterion.shape == (1, 13)
            expected = result.penalty["criterion"][number]
            assert_allclose(choice.criterion, expected, rtol=1e-6, atol=1e-9)
    assert model.set_params(reg=0.3).fit(X, y).tuning_ is None
    assert clone(KernelFDA(reg="auto")).reg == "auto"


def test_what_is_recorded():
    X, y = build.trials((12, 12, 12), 4, 3, SEED)
    result = decode_arrays(X, y, reg="auto", cv=KFold(4), random_state=0)
    assert result.parameters["reg"] == "auto"
    shapes = {name: np.shape(values) for name, values in result.penalty.items()}
    assert shapes == {
        "lambda": (3, 4),
        "degrees_of_freedom": (3, 4),
        "kernel": (3, 4),
        "grid": (3, 4, 1, 13),
        "scale": (3, 4, 1),
        "criterion": (3, 4, 1, 13),
    }
    train = result.folds[1][0]
    Z = X[train, :, 2] - X[train, :, 2].mean(axis=0)
    w = np.linalg.eigvalsh(Z.T @ Z)
    grid = result.penalty["grid"][2, 1, 0]
    assert_allclose(grid[[0, -1]] / w[-1], [10**0.875, 10**-6.125], rtol=1e-9)
    assert_allclose(np.diff(np.log10(grid)), -7 / 12, rtol=1e-9)
    assert_allclose(result.penalty["scale"][2, 1, 0], w.sum() / 27, rtol=1e-9)
    assert np.isin(result.lambdas[2, 1], grid)


@pytest.mark.parametrize("p", [5, 50])
@pytest.mark.parametrize("n_groups", [None, 4])
def test_blocks_and_memory_do_not_matter(p, n_groups, monkeypatch):
    X, y = build.features((12, 12, 12), p, SEED)
    groups = None if n_groups is None else build.groups_of(36, n_groups)
    options = {"groups": groups, "cv": KFold(4), "permute": "free", "reg": "auto"}
    options |= {"n_permutations": 30, "random_state": 0}
    expected = cross_validate(X, y, **options)
    for size in (1, 7):
        assert cross_validate(X, y, batch_size=size, **options) == expected
    monkeypatch.setattr(foldbases, "_CACHE_BYTES", 1)  # one fold at a time
    assert cross_validate(X, y, **options) == expected
    monkeypatch.setattr(foldwise, "_MOST", 0)  # nothing is kept
    assert cross_validate(X, y, **options) == expected


def test_workers_and_stacks_do_not_matter(monkeypatch):
    X, y = build.trials((12, 12, 12), 4, 6, SEED)
    options = {"reg": "auto", "cv": KFold(4), "n_permutations": 9, "random_state": 0}
    options |= {"permute": "free", "verbose": False, "groups": build.groups_of(36)}
    expected = decode_arrays(X, y, **options)
    assert decode_arrays(X, y, n_jobs=2, **options) == expected
    monkeypatch.setattr(positions, "_BLOCK_BYTES", 1)
    assert decode_arrays(X, y, **options) == expected
    alone = cross_validate(
        X[:, :, 4], y, **{k: options[k] for k in options if k != "verbose"}
    )
    assert_array_equal(alone.predicted, expected.predicted[4])
    assert_array_equal(alone.null, expected.null[:, 4])


@pytest.mark.parametrize(("p", "separation"), [(8, 0.6), (80, 0.6), (80, 6.0)])
def test_single_precision_is_close(p, separation):
    X, y = build.features((14, 14, 14), p, SEED, separation)
    options = {"cv": KFold(4), "reg": "auto", "n_permutations": 50, "random_state": 0}
    double, single = (
        cross_validate(X, y, dtype=dtype, **options) for dtype in ("float64", "float32")
    )
    assert_allclose(single.lambdas, double.lambdas, rtol=1e-4)
    assert np.mean(single.null == double.null) > 0.8
    assert_allclose(single.null, double.null, rtol=0, atol=0.1)


@pytest.mark.parametrize("unit", [1e-7, 1e9])
def test_the_unit_of_the_data_does_not_matter(unit):
    X, y = build.features((14, 14, 14), 8, SEED)
    options = {"cv": KFold(4), "reg": "auto", "n_permutations": 9, "random_state": 0}
    result, scaled = (cross_validate(each, y, **options) for each in (X, unit * X))
    assert_allclose(scaled.lambdas, unit**2 * result.lambdas, rtol=1e-9)
    assert_array_equal(scaled.null, result.null)


def test_flat_errors_choose_the_largest_penalty():
    # Of labels that no feature tells, and that lie in no direction of them.
    rng = np.random.default_rng(0)
    y = np.arange(24) % 2
    X = rng.standard_normal((24, 3))
    T = y - 0.5
    X -= X.mean(axis=0)
    X -= np.outer(T, T @ X) / (T @ T)
    model = KernelFDA(reg="auto").fit(X, y)
    assert_allclose(model.lambda_, model.tuning_.lambdas.max(), rtol=1e-12)


@pytest.mark.parametrize("p", [4, 40])
def test_a_training_set_of_one_class_only(p):
    X, y = build.features((3, 15), p, SEED)
    order = np.argsort(y, kind="stable")
    X, y = X[order], y[order]
    cv = [(np.arange(4, 18), np.arange(4)), (np.arange(12), np.arange(12, 18))]
    result = cross_validate(X, y, cv=cv, reg="auto")
    assert (result.predicted[:4] == 1).all()
    fixed = cross_validate(X, y, cv=cv[1:], reg=Ridge(result.lambdas[1]))
    assert_array_equal(result.predicted[12:], fixed.predicted[12:])


def test_time_generalization_is_of_the_same_models():
    X, y = build.trials((12, 12, 12), 5, 3, SEED)
    for options in (
        {"kernel": "rbf"},
        {"kernel": "rbf", "approx": Nystrom(9, "uniform", random_state=0)},
        {"groups": np.arange(36) // 9},
        {"average": 2},
    ):
        options |= {"reg": "auto", "n_permutations": 3, "random_state": 0}
        options["cv"] = list(StratifiedKFold(3).split(X, y))
        maps = generalize_arrays(X, y, **options)
        course = decode_arrays(X, y, **options)
        assert_allclose(np.diag(maps.scores), course.scores, rtol=0, atol=1e-12)
        assert maps.penalty.keys() == course.penalty.keys()
        for name, values in maps.penalty.items():
            assert values.shape == course.penalty[name].shape
            assert_allclose(values, course.penalty[name], rtol=1e-6)
        diagonal = np.arange(3)
        assert_allclose(
            maps.null[:, diagonal, diagonal], course.null, rtol=0, atol=1e-6
        )


def test_indefinite_kernels_are_refused():
    X, y = build.features((12, 12), 4, SEED)
    K = -(np.square(X[:, None] - X).sum(axis=2) ** 1.5) + 30 * linear_kernel(X)
    K[np.diag_indices(24)] += 40
    with pytest.raises(ValueError, match=r"not positive semi-definite.*eigenvalues"):
        cross_validate(K, y, kernel="precomputed", reg="auto")


def test_a_list_of_kernels_is_not_for_auto():
    X, y = build.features((12, 12), 4, SEED)
    with pytest.raises(ValueError, match=r"needs reg='tuned'.*got reg='auto'"):
        cross_validate(X, y, kernel=["linear", "rbf"], reg="auto")


def test_groups_of_a_training_set():
    groups = automatic.TrialGroups(np.array(["b", "b", "a", "c"]))
    found = groups.of(np.array([[0, 1, 3], [0, 2, 3]]))
    assert_array_equal(found.numbers, [[0, 0, 1], [1, 0, 2]])
    assert_array_equal(found.sizes, [[2, 1, 0], [1, 1, 1]])
    assert groups.can_be_left_out(np.array([0, 1, 3]))
    assert not groups.can_be_left_out(np.array([0, 1]))
    assert not groups.can_be_left_out(np.array([0, 2, 3]))
    assert not automatic.TrialGroups(None).can_be_left_out(np.arange(3))


@pytest.mark.slow
@pytest.mark.parametrize("n_groups", [None, 6])
def test_p_values_are_uniform_on_noise(n_groups):
    p = []
    for seed in range(300):
        rng = np.random.default_rng(seed)
        X, y = rng.standard_normal((48, 30)), rng.permutation(np.arange(48) % 2)
        groups = None
        if n_groups is not None:
            groups = build.groups_of(48, n_groups)
            X += rng.standard_normal((n_groups, 30))[groups]
        result = cross_validate(
            X, y, groups=groups, reg="auto", n_permutations=99, random_state=seed
        )
        p.append(result.pvalues())
    for alpha in (0.05, 0.1, 0.2, 0.5):
        margin = 3 * np.sqrt(alpha * (1 - alpha) / len(p))
        assert np.mean(np.array(p) <= alpha) < alpha + margin


@pytest.mark.parametrize("seed", range(3))
def test_numbers_that_features_hold_exactly_in_single_precision(seed):
    """What is beside the directions is rounding then, of either sign."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((60, 4))
    y, options = X @ rng.standard_normal(4), {"cv": KFold(5), "scoring": "r2"}
    result = regress(X, y, reg="auto", dtype="float32", **options)
    assert result.scores > 0.999
