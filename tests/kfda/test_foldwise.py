"""Folds with a matrix of their own equal a plain refit in each fold.

What is compared: predictions, which are identical, and class scores, of the observed
and of permuted labels. Kernels and penalties of the oracle in `reference` are worked
out by hand (`entries`) from the features after the steps. Penalties that labels choose
are compared to a nested loop in which every model is trained anew
(`reference.reference_nested`).
"""

from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import kstest
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.feature_selection import VarianceThreshold
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LinearRegression
from sklearn.metrics.pairwise import linear_kernel, polynomial_kernel, rbf_kernel
from sklearn.model_selection import (
    KFold,
    LeaveOneGroupOut,
    LeaveOneOut,
    PredefinedSplit,
    RepeatedKFold,
    ShuffleSplit,
    StratifiedKFold,
    TimeSeriesSplit,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    PolynomialFeatures,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)

from mvpa_kfda import (
    RBF,
    GraphSmooth,
    KernelFDA,
    Linear,
    Nystrom,
    Polynomial,
    Ridge,
    Tuned,
    cross_validate,
    decode_epochs,
    searchlight,
)
from mvpa_kfda.data.trials import Trials, read_confounds
from mvpa_kfda.decoding.analysis import make_analysis, read_features
from mvpa_kfda.decoding.positions import FeaturePositions
from mvpa_kfda.decoding.procedure import Procedure
from mvpa_kfda.kfda import foldwise
from mvpa_kfda.kfda.direct import apply, prepare
from mvpa_kfda.kfda.folds import InnerFolds, make_folds
from mvpa_kfda.kfda.foldwise import FoldwisePlan
from mvpa_kfda.kfda.hat import make_hat
from mvpa_kfda.kfda.kernels import KernelChoice, Precomputed
from mvpa_kfda.kfda.patterns import class_patterns
from mvpa_kfda.kfda.preprocess import (
    FoldPreprocessing,
)
from mvpa_kfda.utils.plain import recorded
from tests import build, reference
from tests.entries import METHODS, TUNING, pick, scale_of

#: Class counts of 35 trials, unbalanced.
COUNTS = {2: (21, 14), 3: (14, 9, 12), 5: (7, 9, 5, 8, 6), 10: (4, 3) * 5}
both_shapes = pytest.mark.parametrize("p", [6, 60])


class Squares(TransformerMixin, BaseEstimator):
    """A step of a user's own that is not affine."""

    def fit(self, X, y=None):
        """Learn the mean."""
        self.mean_ = X.mean(axis=0)
        return self

    def transform(self, X):
        """Return the features and the squares of how far they are from the mean."""
        return np.hstack([X, (X - self.mean_) ** 2])


#: What the names of steps stand for.
NAMED = {
    "zscore": StandardScaler(),
    "pca": PCA(0.99, svd_solver="full"),
    "whiten": PCA(0.99, svd_solver="full", whiten=True),
}
TWO = PCA(2, svd_solver="full")
SOME = [("scaled", StandardScaler(), [0, 2]), ("kept", "passthrough", [1, 3])]
STEPS = {
    None: None,
    "zscore": "zscore",
    "pca": "pca",
    "whiten": "whiten",
    "zscore, whiten": ["zscore", "whiten"],
    "two": (RobustScaler(), TWO),
    "quantiles": QuantileTransformer(n_quantiles=10),
    "function": FunctionTransformer(np.tanh),
    "polynomials": ["zscore", TWO, PolynomialFeatures(2)],
    "own": Squares(),
    "pipeline": make_pipeline(StandardScaler(), PCA(3, svd_solver="full")),
    "columns": ColumnTransformer(SOME),
    "varying": VarianceThreshold(1.0),
    "landmarks": ["zscore", Nystroem(n_components=8, random_state=3)],
}


def transformers(given):
    """Return new transformers for steps as they are given."""
    if given is None:
        return []
    given = given if isinstance(given, list | tuple) else [given]
    return [clone(NAMED[s] if isinstance(s, str) else s) for s in given]


def make_data(c=3, p=6, seed=0):
    """Return features of several units, away from the origin, and codes."""
    rng = np.random.default_rng([seed, c, p])
    codes = rng.permutation(np.repeat(np.arange(c), COUNTS[c]))
    means = 0.6 * rng.standard_normal((c, p))
    X = rng.standard_normal((len(codes), p)) @ rng.standard_normal((p, p)) / p**0.5
    return (3.0 + X + means[codes]) * np.geomspace(3, 0.3, p), codes


@dataclass(frozen=True)
class Problem:
    """What both sides are asked. A method is an entry of METHODS, by its name."""

    X: np.ndarray
    codes: np.ndarray
    steps: object = "zscore"
    method: str = "linear"
    cv: object = KFold(4, shuffle=True, random_state=1)
    groups: np.ndarray | None = None
    confounds: object = None
    #: The confounds as columns of numbers, by hand.
    columns: np.ndarray | None = None
    rank: int | None = None
    dtype: str = "float64"

    @property
    def n_classes(self):
        """The number of classes."""
        return self.codes.max() + 1

    @property
    def options(self):
        """The options of the method, for KernelFDA."""
        method = METHODS[self.method]
        return method.options(SimpleNamespace(n_features=self.X.shape[1]))

    @property
    def folds(self):
        """Every (train, test), as results come out: by their sizes."""
        pairs = self.cv
        if hasattr(pairs, "split"):
            groups = self.groups if "Group" in type(pairs).__name__ else None
            pairs = pairs.split(self.X, self.codes, groups)
        return sorted(pairs, key=lambda pair: (len(pair[1]), len(pair[0])))

    def without_confounds(self, train):
        """Return all features, less what training trials say that confounds explain."""
        if self.columns is None:
            return self.X
        model = LinearRegression().fit(self.columns[train], self.X[train])
        return self.X - model.predict(self.columns) + self.X[train].mean(axis=0)


def predict(problem, n_permutations=2):
    """Return our plan, labels (P + 1, n) and predictions."""
    procedure = Procedure.of(
        {"reg": 0.3} | problem.options,
        cv=problem.cv,
        n_permutations=n_permutations,
        permute="free",
        random_state=0,
        n_components=problem.rank,
        preprocess=problem.steps,
        precomputed=True,
    )
    X = read_features(problem.X, procedure)
    confounds = read_confounds(problem.confounds, len(X))
    trials = Trials(
        y=problem.codes, n=len(X), groups=problem.groups, confounds=confounds
    )
    analysis = make_analysis(trials, procedure)
    assert analysis.task.is_foldwise
    method, labels = procedure.method, analysis.permutations.labels
    plan = FeaturePositions(X, method.kernel, method.reg).plan(0, analysis.task)
    (found,) = plan.predict(labels, problem.n_classes, want_scores=True)
    return plan, labels, found


def learned(problem, train, test):
    """Return the features of training and test trials after all that is learned."""
    X = problem.without_confounds(train)
    Z, Z_test = X[train], X[test]
    for step in transformers(problem.steps):
        Z, Z_test = step.fit(Z).transform(Z), step.transform(Z_test)
    return Z, Z_test


def refit_oracle(problem, labels, train, test):
    """Return the same of the oracle, on features after the steps."""
    method = METHODS[problem.method]
    Z, Z_test = learned(problem, train, test)
    kernels = [fit(Z, np.arange(Z.shape[1])) for fit in method.kernels]
    grams = [k(Z, Z) for k in kernels]
    lambdas = [method.lam(Z, K) for K in grams]
    everything = np.arange(len(Z))
    i, lam = pick(grams, lambdas, labels[train], everything, problem.n_classes)
    model = reference.fit(grams[i], labels[train], lam, problem.n_classes)
    K_test = kernels[i](Z_test, Z)
    if problem.rank is not None:
        return reference.reduced(model, K_test, problem.rank)
    return model.predict(K_test), model.class_scores(K_test)


def assert_equal_scores(ours, expected, atol=1e-8):
    """Compare class scores (m, c), relative to the largest."""
    scale = np.abs(expected[np.isfinite(expected)]).max()
    assert_allclose(ours, expected, rtol=0, atol=atol * scale)


def check(problem, **options):
    """Assert that refits give what we give."""
    plan, labels, found = predict(problem, **options)
    assert isinstance(plan, FoldwisePlan)
    folds = problem.folds
    assert_array_equal(plan.rows, np.concatenate([test for _, test in folds]))
    for b, codes in enumerate(labels):
        assert_array_equal(found.true[:, b], codes[plan.rows])
        parts = [refit_oracle(problem, codes, *fold) for fold in folds]
        predicted, scores = map(np.concatenate, zip(*parts, strict=True))
        assert_equal_scores(found.class_scores[:, :, b], scores)
        assert_array_equal(found.predicted[:, b], predicted)


def make_confounds(n, codes):
    """Return a table of confounds that are related to the class, and its columns."""
    rng = np.random.default_rng(5)
    speed = codes + rng.standard_normal(n)
    is_even = (codes + (np.arange(n) % 3 == 0)) % 2 == 0
    block = np.where(rng.random(n) < 0.3, "late", np.where(is_even, "early", "mid"))
    table = pd.DataFrame({"speed": speed, "block": block, "left": rng.random(n) < 0.5})
    columns = [speed, block == "late", block == "early", table["left"]]
    return table, np.column_stack(columns).astype(float)


# ------------------------------------- steps, confounds, kernels, penalties and folds


GROUPS = np.arange(35) * 5 // 35
#: Neighbours of test trials are left out of training.
PURGED = [
    (np.r_[: max(a - 3, 0), min(a + 10, 35) : 35], np.arange(a, a + 7))
    for a in range(0, 35, 7)
]
#: Training sets of other sizes with test sets of one size, in no order.
UNEQUAL = [
    (np.r_[9:35], np.r_[0:5]),
    (np.r_[0:5, 12:30], np.r_[6:11]),
    (np.r_[34:14:-1], np.r_[3, 1, 2]),
    (np.r_[0:20], np.r_[30:35]),
]
FOLDS = {
    "partition": KFold(5, shuffle=True, random_state=1),
    "in order": KFold(4),
    "leave one out": LeaveOneOut(),
    "groups": LeaveOneGroupOut(),
    "repeated": RepeatedKFold(n_splits=3, n_repeats=2, random_state=0),
    "overlapping": [  # landmarks are drawn from training trials in this order
        (np.sort(train), test)
        for train, test in ShuffleSplit(4, test_size=6, random_state=0).split(range(35))
    ],
    "a part": ShuffleSplit(4, test_size=6, train_size=20, random_state=0),
    "forwards": TimeSeriesSplit(3, max_train_size=20),
    "some never tested": PredefinedSplit(np.r_[np.full(11, -1), np.arange(24) % 3]),
    "purged": PURGED,
    "unequal": UNEQUAL,
    "purged singles": [
        (np.setdiff1d(np.arange(35), np.r_[max(i - 2, 0) : i + 3]), [i])
        for i in range(35)
    ],
}
#: Those that train on a part of the other trials.
OWN = ("a part", "forwards", "purged", "unequal", "purged singles")


KNOW_PLACES, MIX = ("graph", "weights"), ("zscore", None)
DRAWN = build.spread(
    64,
    STEPS,
    METHODS,
    FOLDS,
    COUNTS,
    [4, 6, 21, 28, 60],
    [False, True],
    [None, 1],
    seed=1,
)


@pytest.mark.some(42)
@pytest.mark.filterwarnings("ignore:.*trials? of class:UserWarning")
@pytest.mark.parametrize(
    ("steps", "method", "cv", "c", "p", "confounded", "rank"),
    DRAWN,
    ids=["-".join(map(str, row)) for row in DRAWN],
)
def test_any_steps_and_models_are_learned_in_any_folds(
    steps, method, cv, c, p, confounded, rank
):
    if method in KNOW_PLACES and steps not in MIX:
        steps = "zscore"
    if method in ("ledoit_wolf", "oas") and "whiten" in str(steps):
        steps = "pca"  # rounding would decide how far white features are shrunk
    if cv == "groups" and ("auto" in method or method == "tuned"):
        cv = "partition"  # these would take account of groups
    X, codes = make_data(c, p)
    groups = GROUPS if cv == "groups" else None
    problem = Problem(X, codes, STEPS[steps], method, FOLDS[cv], groups, rank=rank)
    if confounded:
        table, columns = make_confounds(len(codes), codes)
        X += columns @ np.random.default_rng(1).normal(size=(4, X.shape[1]))
        problem = replace(problem, X=X, confounds=table, columns=columns)
    if steps is None and not confounded and cv not in OWN and method != "tuned":
        problem = replace(problem, cv=FOLDS["unequal"])  # else one matrix serves all
    check(problem)


@pytest.mark.parametrize("name", ["a part", "purged", "unequal"])
def test_training_sets_in_any_order_and_of_kernel_matrices(name):
    X, codes = make_data(3, 6)
    options = {"n_permutations": 9, "random_state": 0, "permute": "free", "reg": 0.3}
    expected = cross_validate(X, codes, cv=FOLDS[name], **options)
    rng = np.random.default_rng(0)
    mixed = [(rng.permutation(train), test) for train, test in expected.folds]
    K = linear_kernel(X - X.mean(axis=0))
    for found in (
        cross_validate(X, codes, cv=mixed, **options),
        cross_validate(K, codes, kernel="precomputed", cv=FOLDS[name], **options),
    ):
        assert_array_equal(found.predicted, expected.predicted)
        assert_array_equal(found.null, expected.null)
        assert_allclose(found.lambdas, expected.lambdas, rtol=1e-10)


def test_classes_absent_from_a_training_set_are_never_predicted():
    X, codes = make_data(5, 6)
    everything, two = np.arange(len(codes)), np.flatnonzero(codes == 2)
    lost = two[:4], np.flatnonzero(codes == 0)[:5]
    cv = [
        (np.setdiff1d(everything, two), lost[0]),
        (np.flatnonzero((codes == 1) | (codes == 3)), lost[1]),
        (np.setdiff1d(everything, lost[1]), lost[1]),
    ]
    for method, rank in product(("linear", "rbf"), (None, 1)):
        problem = Problem(X, codes, method=method, cv=cv, rank=rank)
        with pytest.warns(UserWarning, match="No trial of class '2' is in the tra"):
            check(problem)


@pytest.mark.parametrize("steps", ["zscore", "pca", ["zscore", "whiten"], Squares()])
@both_shapes
def test_features_may_be_constant_inside_a_fold(steps, p):
    X, codes = make_data(3, p)
    first, last = np.arange(9), np.arange(26, 35)
    X[:26, 0], X[9:, 1], X[:, 3] = 0.1, 7.7, 3.3
    cv = [(np.r_[:26], last), (np.r_[9:35], first), (np.r_[3:33], np.r_[:3])]
    for each in (steps, [VarianceThreshold(), "zscore"]):
        check(Problem(X, codes, steps=each, cv=cv))


def test_confounds_may_be_collinear_and_constant_inside_a_fold():
    X, codes = make_data(3, 6)
    _, columns = make_confounds(len(codes), codes)
    late = (np.arange(35) > 30).astype(float)  # of one kind in a fold's training trials
    columns = np.column_stack([columns, 3 * columns[:, 0] - 1, late])
    problem = Problem(X, codes, confounds=columns, columns=columns, cv=UNEQUAL)
    check(problem)
    # Their units and offsets do not matter.
    other = replace(problem, confounds=1e6 + 1e-4 * columns)
    one, two = predict(problem)[2], predict(other)[2]
    assert_array_equal(one.predicted, two.predicted)
    # One confound may be a plain list.
    given = [f"block {k % 3}" for k in range(len(X))]
    columns = (np.arange(len(X))[:, None] % 3 == [0, 1]).astype(float)
    check(Problem(X, codes, None, confounds=given, columns=columns))


# ------------------------------------------------------------- what is recorded of them


@both_shapes
def test_the_penalties_of_all_folds_are_recorded_in_their_order(p):
    X, codes = make_data(3, p)
    for reg in (0.3, Ridge(2.0), Tuned(TUNING)):
        result = cross_validate(X, codes, reg=reg, preprocess="zscore", cv=UNEQUAL)
        assert result.lambdas.shape == result.degrees_of_freedom.shape == (4,)
        for number, (train, _) in enumerate(UNEQUAL):
            model = KernelFDA(reg=reg)
            model.fit(StandardScaler().fit_transform(X[train]), codes[train])
            assert_allclose(result.lambdas[number], model.lambda_, rtol=1e-10)
            df = result.degrees_of_freedom[number]
            assert_allclose(df, model.degrees_of_freedom_, rtol=1e-10)


def refit_patterns(problem, train, lam=None):
    """Return the class patterns (c, p) of a model of the oracle, NaN for absent ones.

    Its discriminant scores stand for s: another basis than the package uses.
    """
    codes, signal = problem.codes[train], problem.X[train]
    K = linear_kernel(learned(problem, train, train)[0])
    lam = 0.3 * scale_of(K) if lam is None else lam
    scores = reference.fit(K, codes, lam, problem.n_classes).transform(K)
    joint, p = np.cov(signal, scores, rowvar=False), signal.shape[1]
    A = joint[:p, p:] @ np.linalg.inv(joint[p:, p:])  # Haufe et al. (2014)
    patterns = np.full((problem.n_classes, p), np.nan)
    for k in np.unique(codes):
        patterns[k] = A @ (scores[codes == k].mean(axis=0) - scores.mean(axis=0))
    return patterns


# ------------------------------------------------------------------- digits and memory


@pytest.mark.parametrize("offset", [1e3, 1e6])
@pytest.mark.parametrize("p", [6, 60])
def test_offsets_cost_no_more_digits_than_they_must(offset, p):
    X, codes = make_data(3, p)
    for steps in ("zscore", ["zscore", "pca"], None):
        cv = FOLDS["groups" if steps else "purged"]
        problem = Problem(X, codes, steps, cv=cv, groups=GROUPS)
        near, far = predict(problem)[2], predict(replace(problem, X=X + offset))[2]
        assert_equal_scores(far.class_scores, near.class_scores, 1e-11 * offset)


def test_matrices_of_folds_are_kept_or_made_again(monkeypatch):
    X, codes = make_data(3, 6)
    epochs = build.epochs(np.repeat(X[:, :, None], 2, axis=2), codes)
    options = {"preprocess": "zscore", "cv": 7, "random_state": 0}
    for reg in (0.3, Tuned(TUNING)):
        run = partial(decode_epochs, epochs, codes, reg=reg, **options)
        kept, make, made = run(n_permutations=600), FoldwisePlan._fold, []

        def count(*given):
            made.append(given)  # noqa: B023
            return make(*given)  # noqa: B023

        with monkeypatch.context() as patch:
            patch.setattr(foldwise, "_MOST", 0)
            patch.setattr(FoldwisePlan, "_fold", count)
            again = run(n_permutations=600)
        assert len(made) > 2 * 8
        assert_array_equal(again.nulls["accuracy"], kept.nulls["accuracy"])
        for name, values in kept.penalty.items():
            assert_array_equal(again.penalty[name], values)
        for kind, values in kept.pattern_maps.items():
            assert_array_equal(again.pattern_maps[kind], values)


# ---------------------------------------------------------------------------- patterns


#: Class 2 is in the first training set alone.
LOST = [
    lambda codes: (np.arange(20), np.arange(20, 35)),
    lambda codes: (np.flatnonzero(codes != 2)[:15], np.flatnonzero(codes != 2)[15:]),
    lambda codes: (np.flatnonzero(codes != 2)[5:], np.flatnonzero(codes == 2)[:9]),
]


@pytest.mark.some(16)
@pytest.mark.filterwarnings("ignore:No trial of class:UserWarning")
@both_shapes
@pytest.mark.parametrize("steps", ["zscore", "pca", "own", None], ids=str)
@pytest.mark.parametrize("name", ["partition", "unequal", "lost", "confounds"])
def test_patterns_are_those_of_refitted_models(name, steps, p):
    X, codes = make_data(3, p)
    problem = Problem(X, codes, STEPS.get(steps))
    if name == "confounds":
        table, columns = make_confounds(len(codes), codes)
        problem = replace(problem, confounds=table, columns=columns)
    elif name == "lost":
        problem = replace(problem, cv=[make(codes) for make in LOST])
    else:
        problem = replace(problem, cv=FOLDS[name if steps else "a part"])
    plan, _, _ = predict(problem)
    ours = class_patterns(plan, codes, 3, X)
    expected = refit_patterns(problem, np.arange(len(codes)))
    atol = 1e-8 * np.abs(expected).max()
    assert_allclose(ours["class"], expected, rtol=0, atol=atol)
    of_folds = [refit_patterns(problem, train) for train, _ in problem.folds]
    assert np.isnan(of_folds).any() == (name == "lost")
    expected = np.nanmean(of_folds, axis=0)
    assert_allclose(ours["class_folds"], expected, rtol=0, atol=atol)
    assert np.abs(ours["class_folds"] - ours["class"]).max() > 1e4 * atol


# ------------------------------------------------------ penalties that labels choose


#: Class counts, unbalanced.
FEW = {2: (14, 9), 3: (6, 11, 8), 5: (4, 7, 5, 6, 3)}
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


def mixed_units(c, p, seed=0, n_groups=4):
    """Return features in another unit than 1, codes in mixed order, and groups."""
    rng = np.random.default_rng(seed)
    codes = rng.permutation(np.repeat(np.arange(c), FEW[c]))
    means = 0.8 * rng.standard_normal((c, p))
    X = 5.0 + rng.standard_normal((len(codes), p)) * np.geomspace(3, 0.3, p)
    return X + means[codes], codes, rng.permutation(np.arange(len(codes)) % n_groups)


def grid_of(grams, n_lambdas=4):
    """Return absolute penalties (n_kernels, L), the largest first."""
    scales = [np.trace(K - K.mean(axis=0)) / len(K) for K in grams]
    return np.outer(scales, np.geomspace(10, 0.02, n_lambdas))


@dataclass
class Nested:
    """What both sides are asked; `folds` are those of the analysis."""

    c: int = 3
    p: int = 5
    outer: str = "partition"
    inner: str = "leave one out"
    kernels: tuple = ("linear",)
    n_permutations: int = 2
    rank: int | None = None

    def __post_init__(self):
        self.X, self.codes, groups = mixed_units(self.c, self.p)
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


@pytest.mark.some(12)
@pytest.mark.parametrize("inner", INNER)
@pytest.mark.parametrize("outer", OUTER)
@pytest.mark.parametrize("p", [4, 40])
@pytest.mark.parametrize("c", FEW)
def test_equals_the_nested_loop(c, p, outer, inner, monkeypatch):
    problem = Nested(c, p, outer, inner, n_permutations=1)
    (each,) = problem.plan().whole.sets
    assert each.is_dual == (p == 40)
    assert_both_equal_nested(problem, problem.plan, problem.nested(), monkeypatch)


@pytest.mark.parametrize("inner", INNER)
@pytest.mark.parametrize(
    ("kernels", "p", "rank"),
    [
        (("linear", "rbf", "wide rbf"), 4, None),
        (("polynomial", "linear"), 40, None),
        (("precomputed",), 4, None),
        (("linear",), 6, 1),
    ],
)
def test_kernel_and_penalty_are_chosen_together(kernels, p, rank, inner, monkeypatch):
    problem = Nested(3, p, "unequal", inner, kernels, 1, rank)
    problem.lambdas = np.tile(problem.lambdas.mean(axis=0), (len(kernels), 1))
    nested = problem.nested()
    # Else it could not fail: folds and labellings disagree.
    assert len(np.unique(nested.kernels)) > 1 or len(kernels) == 1
    assert len(np.unique(nested.lambdas)) > 1
    assert_both_equal_nested(problem, problem.plan, nested, monkeypatch)


#: Trials in groups of several, of one each, and without groups.
GROUPINGS = {
    "none": lambda n: None,
    "alone": np.arange,
    "four": lambda n: np.arange(n) % 4,
}


@pytest.mark.some(12)
@pytest.mark.parametrize("grouping", GROUPINGS)
@pytest.mark.parametrize("p", [4, 12, 40])
@pytest.mark.parametrize("c", FEW)
def test_by_default_two_penalties_are_without_labels(c, p, grouping, monkeypatch):
    """One of them is chosen by generalized cross-validation, or by groups left out."""
    problem = Nested(c, p, "unequal", n_permutations=3)
    codes, n = problem.codes, len(problem.codes)
    problem.groups = groups = GROUPINGS[grouping](n)
    K = linear_kernel(problem.X - problem.X.mean(axis=0))
    found = reference.label_free(K, p, groups)
    lambdas = np.sort([[found.like_noise, found.anywhere]])[:, ::-1]

    def splits(train):
        if grouping != "four":
            return None
        return list(LeaveOneGroupOut().split(train, groups=groups[train]))

    record = problem.plan(tuned=Tuned()).penalty(codes[None], c)
    assert_allclose(record["grid"][0], lambdas, rtol=1e-6, atol=0)
    nested = problem.nested(record["grid"][0], splits)
    make = partial(problem.plan, tuned=Tuned())
    assert_both_equal_nested(problem, make, nested, monkeypatch)


@pytest.mark.parametrize("kernels", [("linear", "wide rbf"), ("rbf",)])
def test_kernels_that_are_not_linear_are_tuned_over_their_spectra(kernels, monkeypatch):
    problem = Nested(3, 6, "unequal", kernels=kernels)
    make = lambda: problem.plan(tuned=Tuned())  # noqa: E731
    grid = make().penalty(problem.labels[:1], 3)["grid"][0]
    lambdas = [reference.lambdas_over_spectrum(K) for K in problem.grams]
    assert_allclose(grid, lambdas, rtol=1e-6, atol=0)
    nested = problem.nested(grid, lambda train: None)
    assert len(np.unique(nested.kernels)) == len(kernels)
    # The smallest of them leave few digits of squared residuals.
    assert_both_equal_nested(problem, make, nested, monkeypatch, rtol=1e-3)


@pytest.mark.parametrize("inner", INNER)
@pytest.mark.parametrize("p", [4, 40])
def test_labels_and_folds_at_a_time_do_not_matter(p, inner, monkeypatch):
    problem = Nested(3, p, "unequal", inner, n_permutations=5)
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
        X, codes, _ = mixed_units(3, p)
        result = cross_validate(X, codes, reg="tuned", cv=3)
        assert result.parameters["reg"] == recorded(Tuned())
        assert result.parameters["kernels"] == [{"name": "Linear"}]
        for unit in (1e-6, 1e6):
            other = cross_validate(unit * X, codes, reg="tuned", cv=3)
            assert_allclose(other.lambdas, unit**2 * result.lambdas, rtol=1e-6, atol=0)
            assert_array_equal(other.predictions, result.predictions)


@pytest.mark.parametrize("grouped", [False, True])
def test_memory_of_many_trials(grouped):
    n, rng = 2000, np.random.default_rng(0)
    codes = np.arange(n) % 2
    X = rng.standard_normal((n, 3)) + 0.5 * codes[:, None]
    options = {"kernel": RBF(0.1), "approx": Nystrom(20, "uniform"), "cv": KFold(10)}
    options |= {"groups": np.arange(n) % 50 if grouped else None, "reg": [1.0, 0.1]}
    # An (n, n) matrix would be as much.
    assert build.peak_bytes(cross_validate, X, codes, **options) < 8 * n**2


# ------------------------------------------------------------------ unstable candidates


@pytest.mark.parametrize("inner", INNER)
@pytest.mark.parametrize("outer", ["unequal", "overlapping"])
@pytest.mark.parametrize("many", [256, 1], ids=["shared", "alone"])
def test_unstable_penalties_are_skipped(many, outer, inner, monkeypatch):
    # With fewer trials than features a tiny penalty fits left-out trials exactly.
    monkeypatch.setattr(MANY_TESTED, many)
    problem = Nested(3, 40, outer, inner, n_permutations=1)
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


@pytest.mark.parametrize(
    ("n", "grouped", "turned"),
    [(120, False, True), (120, True, False), (1600, False, False), (1600, True, True)],
)
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


def test_nothing_but_unstable_penalties():
    X, codes, _ = mixed_units(3, 40)
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
@pytest.mark.parametrize("c", FEW)
def test_penalties_that_leave_nothing_within_classes_but_rounding_are_skipped(c, rank):
    rng, codes = np.random.default_rng(1), np.arange(40) % c
    X = rng.standard_normal((c, 6))[codes] + 1e-9 * rng.standard_normal((40, 6))
    reg = [1.0, 1e-2, 1e-15, 1e-16, 1e-17]
    result = cross_validate(X, codes, reg=reg, cv=5, n_components=rank)
    criteria = result.penalty["criterion"][:, 0]
    assert np.isfinite(criteria[:, :2]).all()
    assert np.isnan(criteria[:, 2:]).any(axis=1).all()


def test_leaving_out_the_only_group_of_a_training_set():
    X, codes, _ = mixed_units(2, 4)
    groups = np.arange(23) % 2
    with pytest.raises(ValueError, match=r"single group\. Use three or more groups"):
        cross_validate(X, codes, groups=groups, reg="tuned")
    with pytest.raises(ValueError, match="single group"):
        KernelFDA(reg="tuned").fit(X, codes, groups=np.zeros(23))


# ------------------------------------------------------------------------------- maps


N_MAPS, SEED = 26, 3
OF_MAPS = np.random.default_rng(0).permutation(np.repeat([0, 1, 2], [8, 11, 7]))
#: Small enough that neighbouring folds and times choose differently.
GRID = [Ridge(lam) for lam in (300.0, 40.0, 5.0, 0.7)]
CV = KFold(3, shuffle=True, random_state=0)


def over_time(p, n_times=3, seed=0, codes=OF_MAPS):
    """Return (n, p, n_times); classes differ, in other ways at other times."""
    rng = np.random.default_rng(seed)
    means = 0.6 * rng.standard_normal((3, p, n_times))
    means += means.mean(axis=2, keepdims=True)
    noise = rng.standard_normal((len(codes), p, n_times))
    return 2.0 + means[codes] + noise * np.geomspace(2, 0.5, p)[:, None]


@pytest.mark.parametrize("cv", [CV, ShuffleSplit(4, test_size=5, random_state=0)])
def test_patterns_of_chosen_models(cv):
    X = over_time(4, 4)
    epochs = build.epochs(X, OF_MAPS, units={}, sfreq=10.0)
    result = decode_epochs(epochs, OF_MAPS, reg=Tuned(GRID), cv=cv, scale=None)
    differ, rows = 0, np.arange(N_MAPS)
    for t in range(4):
        signal = X[:, :, t]
        problem = Problem(signal, OF_MAPS, None)
        lambdas = result.lambdas[t]
        folds = [
            refit_patterns(problem, train, lam)
            for lam, (train, _) in zip(lambdas, result.folds, strict=True)
        ]
        differ += len(np.unique(lambdas)) > 1
        splits = list(LeaveOneOut().split(rows))
        given = [linear_kernel(signal)], [[r.lam for r in GRID]], OF_MAPS, rows, splits
        lam = reference.choose(*given, 3)[1]
        plan = prepare(make_hat(signal, Linear(), Ridge(lam)), None)
        expected = class_patterns(plan, OF_MAPS, 3, signal)
        expected["class"] = refit_patterns(problem, rows, lam)
        expected["class_folds"] = np.mean(folds, axis=0)
        for kind, values in result.pattern_maps.items():
            assert_allclose(values[t], expected[kind], rtol=0, atol=1e-9)
    assert differ  # else one penalty would do for all folds


@pytest.mark.filterwarnings("ignore:1 of 8 features hold NaN")
def test_a_kernel_by_places_is_that_of_a_sphere():
    X = over_time(8)[:, :, 0]
    X[:, 4] = 1.0  # nothing to decode there
    adjacency = (np.eye(8, k=1) + np.eye(8, k=-1) + np.eye(8)) > 0
    lattice = GraphSmooth(adjacency & ~np.eye(8, dtype=bool))
    options = {"reg": Tuned(GRID), "cv": CV, "random_state": SEED}
    given = {"adjacency": adjacency, "standardize": False}
    kernels = [lattice, RBF(0.02)]
    result = searchlight(X, OF_MAPS, kernel=kernels, **given, **options)
    assert np.isnan([result.scores[4], *result.lambdas[4]]).all()
    assert (result.penalty["kernel"][4] == -1).all()
    for i in (0, 3, 7):
        columns = np.setdiff1d(np.flatnonzero(adjacency[i]), [4])
        kernels = [lattice.take(columns), RBF(0.02)]
        alone = cross_validate(X[:, columns], OF_MAPS, kernel=kernels, **options)
        assert_array_equal(result.predicted[i], alone.predicted)
        for name in ("lambda", "kernel", "criterion"):
            values = result.penalty[name][i]
            assert_allclose(values, alone.penalty[name], rtol=1e-8, atol=1e-10)


# ---------------------------------------------------------------------- honest on noise


@pytest.mark.slow
def test_p_values_are_uniform_on_noise():
    problem, reg = build.PROBLEMS["stratified"][0], np.geomspace(1e-4, 1e3, 30)[::6]
    p = build.p_without_ties(build.simulate(problem, 200, 39, reg=reg))
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
