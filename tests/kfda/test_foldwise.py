"""Steps, confounds and training sets of any shape equal a plain refit in each fold.

What is compared: predictions, which are identical, and class scores, of the observed
and of permuted labels. A model is refitted twice: as a pipeline of scikit-learn that
ends in KernelFDA, and as the oracle of `reference`, of which kernels and penalties are
worked out by hand (`test_contract`) from the features after the steps.
"""

import weakref
from dataclasses import dataclass, replace
from itertools import product
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.feature_selection import VarianceThreshold
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LinearRegression
from sklearn.metrics.pairwise import linear_kernel
from sklearn.model_selection import (
    KFold,
    LeaveOneGroupOut,
    LeaveOneOut,
    PredefinedSplit,
    RepeatedKFold,
    ShuffleSplit,
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
    KernelFDA,
    Ridge,
    Tuned,
    cross_validate,
    decode_arrays,
    decode_epochs,
    generalize_epochs,
    regress,
)
from mvpa_kfda.data.trials import Trials, read_confounds
from mvpa_kfda.decoding import positions
from mvpa_kfda.decoding.analysis import make_analysis, read_features
from mvpa_kfda.decoding.positions import FeaturePositions
from mvpa_kfda.decoding.procedure import Procedure
from mvpa_kfda.kfda import foldwise
from mvpa_kfda.kfda.foldwise import FoldwisePlan
from mvpa_kfda.kfda.patterns import class_patterns
from mvpa_kfda.kfda.preprocess import RemoveConfounds, check_steps, fit_steps
from mvpa_kfda.utils.plain import recorded
from tests import build, reference
from tests.entries import METHODS, TUNING, linear, penalty, pick, scale_of

#: Class counts, unbalanced.
COUNTS = {
    2: (17, 10),
    3: (14, 9, 12),
    4: (9, 14, 7, 8),
    5: (7, 9, 6, 12, 8),
    10: (6, 5, 7, 6, 5, 8, 5, 6, 7, 5),
}
#: Fewer features than trials, and more.
SHAPES = [6, 60]
both_shapes = pytest.mark.parametrize("p", SHAPES)


def pairwise(names, *axes):
    """Parametrise by rows in which every two values of different axes meet."""
    return pytest.mark.parametrize(names, build.every_pair(list(product(*axes))))


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
        return self.X - model.predict(self.columns)


def predict(problem, n_permutations=2):
    """Return our plan, labels (P + 1, n) and predictions."""
    procedure = Procedure.of(
        {"reg": 0.3} | problem.options,
        cv=problem.cv,
        n_permutations=n_permutations,
        permute="free",
        random_state=0,
        dtype=problem.dtype,
        n_components=problem.rank,
        preprocess=problem.steps,
        precomputed=True,
    )
    X = read_features(problem.X, procedure)
    kernel, reg = procedure.method.kernel, procedure.method.reg
    trials = Trials(
        y=problem.codes,
        n=len(X),
        groups=problem.groups,
        confounds=read_confounds(problem.confounds, len(X)),
    )
    analysis = make_analysis(trials, procedure)
    assert analysis.task.is_foldwise
    plan = FeaturePositions(X, kernel, reg).plan(0, analysis.task)
    labels = analysis.permutations.labels
    (found,) = plan.predict(labels, problem.n_classes, want_scores=True)
    return plan, labels, found


def refit_pipeline(problem, labels, train, test):
    """Return predictions, and class scores (m, c), of a pipeline of scikit-learn."""
    X = problem.without_confounds(train)
    options = problem.options | {"n_components": problem.rank}
    if problem.rank is not None:  # no more than there are in this training set
        options["n_components"] = min(problem.rank, len(set(labels[train])) - 1)
    model = make_pipeline(*transformers(problem.steps), KernelFDA(**options))
    model.fit(X[train], labels[train])
    fitted = model[-1]
    scores = np.full((len(test), problem.n_classes), -np.inf)
    scores[:, fitted.classes_] = model.transform(X[test]) @ fitted.means_.T
    scores[:, fitted.classes_] += fitted.offsets_
    return model.predict(X[test]), scores


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


def check(problem, refits=(refit_pipeline, refit_oracle), **options):
    """Assert that both refits give what we give; return our plan."""
    plan, labels, found = predict(problem, **options)
    assert isinstance(plan, FoldwisePlan)
    folds = problem.folds
    assert_array_equal(plan.rows, np.concatenate([test for _, test in folds]))
    for b, codes in enumerate(labels):
        assert_array_equal(found.true[:, b], codes[plan.rows])
        for refit in refits:
            parts = [refit(problem, codes, *fold) for fold in folds]
            predicted, scores = map(np.concatenate, zip(*parts, strict=True))
            assert_equal_scores(found.class_scores[:, :, b], scores)
            assert_array_equal(found.predicted[:, b], predicted)
    return plan


# ------------------------------------------------------------ steps, shapes and classes


@pytest.mark.some(14)
@both_shapes
@pytest.mark.parametrize("c", COUNTS)
@pytest.mark.parametrize("steps", ["zscore", "pca", "whiten", ["zscore", TWO]], ids=str)
def test_steps_are_learned_in_every_fold(steps, c, p):
    check(Problem(*make_data(c, p), steps=steps))


@pytest.mark.some(11)
@both_shapes
@pytest.mark.parametrize("name", STEPS)
def test_any_transformer_is_a_step(name, p):
    check(Problem(*make_data(3, p), steps=STEPS[name]))


@pytest.mark.some(17)
@pairwise("method, steps, p", METHODS, ["zscore", None], SHAPES)
def test_any_kernel_and_penalty_may_follow(method, steps, p):
    cv = ShuffleSplit(3, test_size=7, train_size=25, random_state=0)
    check(Problem(*make_data(3, p), steps=steps, method=method, cv=cv))


KNOWS_NO_PLACES = [name for name in METHODS if name not in ("graph", "weights")]


@pytest.mark.some(9)
@pytest.mark.parametrize("method", KNOWS_NO_PLACES)
def test_any_kernel_and_penalty_may_follow_steps_that_mix(method):
    check(Problem(*make_data(3, 12), steps=["zscore", PCA(5)], method=method))


@pytest.mark.parametrize("reg", ["ledoit_wolf", "oas"])
def test_white_features_are_shrunk_all_the_way(reg, monkeypatch):
    # Rounding would decide how far: the oracle's own, in another order, does.
    monkeypatch.setitem(METHODS, "estimated", penalty(reg, lambda X, K: [np.nan]))
    problem = Problem(*make_data(3, 6), steps="whiten", method="estimated")
    check(problem, [refit_pipeline])


@both_shapes
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_the_first_discriminants_classify_alike(rank, p):
    check(Problem(*make_data(5, p), steps=["zscore", "pca"], rank=rank))


@pytest.mark.filterwarnings("ignore:No trial of class:UserWarning")
@settings(derandomize=True, max_examples=25, deadline=None)
@given(
    c=st.sampled_from(list(COUNTS)),
    p=st.integers(4, 70),
    name=st.sampled_from([name for name in STEPS if name != "varying"]),
    method=st.sampled_from(["linear", "rbf", "polynomial", "Ridge", "Shrinkage"]),
    n_train=st.integers(16, 22),
    seed=st.integers(0, 99),
)
def test_refitting_gives_the_same_for_any_shape(c, p, name, method, n_train, seed):
    X, codes = make_data(c, p, seed)
    cv = ShuffleSplit(2, test_size=5, train_size=n_train, random_state=seed)
    check(Problem(X, codes, steps=STEPS[name], method=method, cv=cv), n_permutations=1)


# ------------------------------------------------------------------------ folds, groups


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
    "overlapping": ShuffleSplit(4, test_size=6, random_state=0),
    "a part": ShuffleSplit(4, test_size=6, train_size=20, random_state=0),
    "few": ShuffleSplit(3, test_size=20, train_size=12, random_state=0),
    "forwards": TimeSeriesSplit(3, max_train_size=20),
    "some never tested": PredefinedSplit(np.r_[np.full(11, -1), np.arange(24) % 3]),
    "purged": PURGED,
    "unequal": UNEQUAL,
    "purged singles": [
        (np.setdiff1d(np.arange(35), np.r_[max(i - 2, 0) : i + 3]), [i])
        for i in range(35)
    ],
}
OWN = ("a part", "few", "forwards", "purged", "unequal", "purged singles")


@pytest.mark.some(7)
@pairwise("name, steps, p", FOLDS, ["zscore", ("zscore", "pca")], SHAPES)
def test_any_folds_learn_steps(name, steps, p):
    check(Problem(*make_data(3, p), steps=steps, cv=FOLDS[name], groups=GROUPS))


@pytest.mark.some(6)
@pairwise("name, method, p", OWN, ["linear", "rbf", "tuned", "auto"], SHAPES)
def test_training_sets_of_any_shape(name, method, p):
    problem = Problem(*make_data(3, p), steps=None, method=method, cv=FOLDS[name])
    plan = check(problem)
    # In every order of trials within training sets.
    rng = np.random.default_rng(0)
    mixed = [(rng.permutation(train), test) for train, test in problem.folds]
    other, _, found = predict(replace(problem, cv=mixed))
    assert_array_equal(other.rows, plan.rows)
    assert_array_equal(found.predicted, predict(problem)[2].predicted)


@pytest.mark.parametrize("name", ["a part", "purged", "unequal"])
def test_kernel_matrices_have_training_sets_of_any_shape(name):
    X, codes = make_data(3, 6)
    options = {"cv": FOLDS[name], "n_permutations": 9, "random_state": 0}
    options |= {"permute": "free", "reg": 0.3}
    K = linear_kernel(X - X.mean(axis=0))
    ours = cross_validate(K, codes, kernel="precomputed", **options)
    expected = cross_validate(X, codes, **options)
    assert_array_equal(ours.predicted, expected.predicted)
    assert_array_equal(ours.null, expected.null)
    assert_allclose(ours.lambdas, expected.lambdas, rtol=1e-10)


def test_classes_absent_from_a_training_set_are_never_predicted():
    X, codes = make_data(4, 6)
    everything = np.arange(len(codes))
    lost = [np.flatnonzero(codes == 2)[:5], np.flatnonzero(codes == 0)[:5]]
    cv = [
        (np.setdiff1d(everything, np.flatnonzero(codes == 2)), lost[0]),
        (np.flatnonzero((codes == 1) | (codes == 3)), lost[1]),
        (np.setdiff1d(everything, lost[1]), lost[1]),
    ]
    for method in ("linear", "rbf"):
        for rank in (None, 1):
            problem = Problem(X, codes, method=method, cv=cv, rank=rank)
            with pytest.warns(UserWarning, match="No trial of class '2' is in the tra"):
                check(problem)
    with pytest.warns(UserWarning, match="No trial of class"):
        _, _, found = predict(problem)
    assert np.isneginf(found.class_scores).any()


@pytest.mark.parametrize("steps", ["zscore", "pca", ["zscore", "whiten"], Squares()])
@both_shapes
def test_features_may_be_constant_inside_a_fold(steps, p):
    X, codes = make_data(3, p)
    first, last = np.arange(9), np.arange(26, 35)
    X[:26, 0], X[9:, 1], X[:, 3] = 0.1, 7.7, 3.3
    cv = [(np.r_[:26], last), (np.r_[9:35], first), (np.r_[3:33], np.r_[:3])]
    check(Problem(X, codes, steps=steps, cv=cv), [refit_pipeline])
    check(Problem(X, codes, steps=[VarianceThreshold(), "zscore"], cv=cv))


# --------------------------------------------------------------------- tuned penalties


#: From penalties that are best for noise to one that is best for large effects.
GRID = [30.0, 3.0, 0.3, 0.03]


@pytest.mark.parametrize("steps", ["zscore", ("zscore", TWO), None])
def test_penalties_are_tuned_within_every_training_set(steps, monkeypatch):
    tuned = Tuned(GRID)
    method = replace(METHODS["tuned"], options=lambda entry: {"reg": tuned})
    monkeypatch.setitem(METHODS, "tuned", replace(method, kernels=(linear,)))
    cv = FOLDS["unequal"] if steps is None else FOLDS["a part"]
    X, codes = make_data(3, 6)
    X[:, 0] += 4 * codes  # the observed labels want another penalty than permuted ones
    problem = Problem(X, codes, steps=steps, method="tuned", cv=cv)
    plan = check(problem, [refit_pipeline])

    def refit_chosen(problem, labels, train, test):
        Z, Z_test = learned(problem, train, test)
        K, mine, rows = linear_kernel(Z), labels[train], np.arange(len(Z))
        lambdas = [[reg * scale_of(K) for reg in GRID]]
        splits = list(LeaveOneOut().split(Z))
        _, lam, _ = reference.choose([K], lambdas, mine, rows, splits, 3)
        chosen.append(lam)
        ratios.add(round(lam / scale_of(K), 6))
        model, K_test = reference.fit(K, mine, lam, 3), linear_kernel(Z_test, Z)
        return model.predict(K_test), model.class_scores(K_test)

    chosen, ratios = [], set()
    check(problem, [refit_chosen])
    labels = problem.codes[None]
    ours = plan.penalty(labels, 3)["lambda"][0][plan.folds.numbers]
    assert_allclose(ours, chosen[: len(ours)], rtol=1e-8)
    assert len(ratios) > 1


def test_groups_are_left_out_one_at_a_time_to_tune_after_steps():
    X, codes = make_data(3, 6)
    groups = np.repeat([2, 0, 4, 1], [5, 14, 9, 7])
    result = cross_validate(
        X, codes, groups=groups, reg=Tuned(TUNING), preprocess="zscore"
    )
    for number, (train, _) in enumerate(result.folds):
        Z = StandardScaler().fit_transform(X[train])
        K = linear_kernel(Z)
        splits = list(LeaveOneGroupOut().split(Z, groups=groups[train]))
        lambdas = [[reg * scale_of(K) for reg in TUNING]]
        rows = np.arange(len(train))
        _, lam, criteria = reference.choose([K], lambdas, codes[train], rows, splits, 3)
        assert_allclose(result.lambdas[number], lam, rtol=1e-10)
        ours = result.penalty["criterion"][number]
        assert_allclose(np.ravel(ours), np.ravel(criteria), rtol=1e-8)


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


@pytest.mark.filterwarnings("ignore:All trials of class:UserWarning")
def test_a_step_that_changes_nothing_leaves_absolute_penalties_as_they_are():
    X, codes = make_data(3, 6)
    # Some trials of all classes; and all of the last class, which nobody trains with.
    tests = [np.r_[:9], np.union1d(np.flatnonzero(codes == 2), np.r_[9:15])]
    cv = [(np.setdiff1d(np.arange(35), test), test) for test in tests]
    options = {"cv": cv, "n_permutations": 9, "random_state": 0, "permute": "free"}
    epochs = build.epochs(X[:, :, None], codes)

    def both(reg):
        for steps in (None, FunctionTransformer()):
            yield decode_epochs(epochs, codes, reg=reg, preprocess=steps, **options)

    one, other = both(Ridge(20e-12))  # in squared volts
    relative, of_folds = both(0.3)
    assert_array_equal(other.predicted, one.predicted)
    assert_array_equal(other.null, one.null)
    assert_allclose(other.lambdas, np.full((1, 2), 20e-12), rtol=1e-12)
    problem = Problem(X, codes, None)
    expected = [refit_patterns(problem, train, 20.0) for train, _ in cv]
    for each in (one, other):
        ours = 1e6 * each.pattern_maps["class_folds"][0]
        assert_allclose(ours, np.nanmean(expected, axis=0), rtol=1e-8)
    # A relative penalty is of the trials that a matrix is made of.
    expected = [0.3 * scale_of(linear_kernel(X))]
    assert_allclose(1e12 * relative.lambdas, expected, rtol=1e-10)
    expected = [[0.3 * scale_of(linear_kernel(X[train])) for train, _ in cv]]
    assert_allclose(1e12 * of_folds.lambdas, expected, rtol=1e-10)


def test_records_of_penalties_have_an_axis_of_folds_where_these_have_a_matrix():
    X, codes = make_data(3, 6)
    data = np.repeat(X[:, :, None], 2, axis=2)
    own = [(train[:20], test) for train, test in KFold(4).split(X)]
    for options in ({}, {"preprocess": "zscore"}, {"cv": own}):
        folds = (4,) if options else ()
        options = {"cv": 4, "reg": Tuned(TUNING)} | options
        number = regress(X, codes + 0.5, **options).penalty
        course = decode_arrays(data, codes, **options).penalty
        for times, found in (((), number), ((2,), course)):
            assert found["grid"].shape == (*times, *folds, 1, len(TUNING))
            assert found["scale"].shape == (*times, *folds, 1)
            assert found["criterion"].shape == (*times, 4, 1, len(TUNING))
            assert found["lambda"].shape == found["kernel"].shape == (*times, 4)


# --------------------------------------------------------------------------- confounds


def make_confounds(n, codes):
    """Return a table of confounds that are related to the class, and its columns."""
    rng = np.random.default_rng(5)
    speed = codes + rng.standard_normal(n)
    block = np.where(rng.random(n) < 0.3, "late", np.where(codes == 0, "early", "mid"))
    table = pd.DataFrame({"speed": speed, "block": block, "left": rng.random(n) < 0.5})
    columns = [speed, block == "late", block == "early", table["left"]]
    return table, np.column_stack(columns).astype(float)


@pytest.mark.some(5)
@pairwise(
    "steps, method, p",
    [None, "zscore", ("zscore", PCA(3))],
    ["linear", "rbf", "ledoit_wolf", "tuned", "auto", "graph"],
    SHAPES,
)
def test_confounds_are_taken_out_by_training_trials(steps, method, p):
    X, codes = make_data(3, p)
    if isinstance(steps, tuple) and method == "graph":
        steps = ["zscore", RobustScaler()]
    table, columns = make_confounds(len(codes), codes)
    X += columns @ np.random.default_rng(1).normal(size=(4, p))  # which they explain
    problem = Problem(X, codes, steps, method, confounds=table, columns=columns)
    check(problem)
    for name in ("a part", "unequal"):
        check(replace(problem, cv=FOLDS[name]), n_permutations=1)


def test_one_confound_may_be_a_plain_list():
    X, codes = make_data(3, 6)
    given = [f"block {k % 3}" for k in range(len(X))]
    columns = (np.arange(len(X))[:, None] % 3 == [0, 1]).astype(float)
    problem = Problem(X, codes, None, confounds=given, columns=columns)
    check(problem)
    speed = np.arange(len(X)) % 7
    check(replace(problem, confounds=speed, columns=speed[:, None].astype(float)))


def test_the_rounding_of_a_constant_feature_is_not_left_by_confounds():
    X = np.random.default_rng(0).standard_normal((26, 3))
    X[:, 0] = 0.1
    assert X[:, 0].mean() != 0.1
    found = RemoveConfounds(1).fit(X).transform(X)
    assert_array_equal(found[:, 0], 0)
    assert (found[:, 1] != 0).all()


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


# -------------------------------------------------------------- the same by all routes


@both_shapes
@pytest.mark.parametrize("steps", ["zscore", "pca", "quantiles", None], ids=str)
def test_single_precision_is_close(steps, p):
    cv = FOLDS["purged" if steps is None else "partition"]
    problem = Problem(*make_data(3, p), steps=STEPS.get(steps), cv=cv)
    _, _, double = predict(problem, n_permutations=20)
    _, _, single = predict(replace(problem, dtype="float32"), n_permutations=20)
    assert single.class_scores.dtype == np.float32
    assert_equal_scores(single.class_scores, double.class_scores, atol=2e-4)
    assert np.mean(single.predicted != double.predicted) < 0.005


@pytest.mark.parametrize("offset", [1e3, 1e6])
@pytest.mark.parametrize("p", [6, 60])
def test_offsets_cost_no_more_digits_than_they_must(offset, p):
    X, codes = make_data(3, p)
    for steps in ("zscore", ["zscore", "pca"], None):
        cv = FOLDS["groups" if steps else "purged"]
        problem = Problem(X, codes, steps, cv=cv, groups=GROUPS)
        near, far = predict(problem)[2], predict(replace(problem, X=X + offset))[2]
        assert_equal_scores(far.class_scores, near.class_scores, 1e-11 * offset)


@pytest.mark.parametrize("method", ["linear", "rbf", "tuned", "auto"])
@pytest.mark.parametrize("steps", ["zscore", ["zscore", "whiten"], None], ids=str)
def test_a_far_test_trial_costs_the_others_no_digits(steps, method):
    X, codes = make_data(3, 6)
    cv = [(np.arange(12, 35), np.arange(9))]
    problem = Problem(X, codes, steps, method, cv)
    before, others = predict(problem)[2], np.arange(9) != 4
    for far in (1e3, 1e12):
        X_far = X.copy()
        X_far[4] = far * np.arange(6)
        found = predict(replace(problem, X=X_far))[2]
        ours, expected = found.class_scores[others], before.class_scores[others]
        assert_equal_scores(ours, expected, atol=1e-10)


@pytest.mark.parametrize("reg", [0.3, Tuned(TUNING)], ids=["fixed", "tuned"])
def test_matrices_of_folds_are_kept_if_memory_allows(reg, monkeypatch):
    X, codes = make_data(3, 6)
    made, alive, make = [], [], FoldwisePlan._fold

    def watch(plan, train, test):
        fold = make(plan, train, test)
        if len(test):  # not the model of all trials
            made.append(weakref.ref(fold.transform))
            alive.append(sum(each() is not None for each in made))
        return fold

    monkeypatch.setattr(FoldwisePlan, "_fold", watch)
    options = {"preprocess": "zscore", "reg": reg, "cv": 7, "random_state": 0}
    epochs = build.epochs(np.repeat(X[:, :, None], 2, axis=2), codes)
    results = []
    for most in (8 * 7 * 35 * 6, 8 * 7 * 35 * 6 - 1):
        monkeypatch.setattr(foldwise, "_MOST", most)
        results.append(decode_epochs(epochs, codes, n_permutations=600, **options))
        kept = len(made) == 2 * 7
        assert kept == (not results[1:])
        assert max(alive) >= 7 if kept else max(alive) <= 2
        made.clear()
        alive.clear()
    kept, again = results
    assert_array_equal(again.nulls["accuracy"], kept.nulls["accuracy"])
    for name, values in kept.penalty.items():
        assert_array_equal(again.penalty[name], values)
    for kind, values in kept.pattern_maps.items():
        assert_array_equal(again.pattern_maps[kind], values)


@pytest.mark.parametrize("batch_size", [1, 7, 1000])
@pytest.mark.parametrize("steps", ["zscore", "pca", "quantiles", None], ids=str)
def test_batches_change_no_number(steps, batch_size, monkeypatch):
    X, codes = make_data(3, 6)
    cv = FOLDS["unequal" if steps is None else "partition"]
    options = {"n_permutations": 30, "random_state": 0, "permute": "free", "cv": cv}
    options |= {"preprocess": STEPS.get(steps), "scoring": ["accuracy", "roc_auc"]}
    whole = cross_validate(X, codes, **options)
    build.in_batches(batch_size, monkeypatch)
    parts = cross_validate(X, codes, **options)
    for name, null in whole.nulls.items():
        assert_array_equal(parts.nulls[name], null)
    assert_array_equal(parts.predicted, whole.predicted)


def test_scores_of_trials_that_several_sets_test_are_averaged():
    X, codes = make_data(3, 6)
    cv = list(FOLDS["a part"].split(X))
    result = cross_validate(X, codes, preprocess="zscore", reg=0.3, cv=cv)
    total, times = np.zeros((35, 3)), np.zeros((35, 1))
    for train, test in cv:
        _, scores = refit_pipeline(Problem(X, codes), codes, train, test)
        total[test] += scores
        times[test] += 1
    tested = times[:, 0] > 0
    assert times.max() > 1
    assert not tested.all()
    ours, expected = result.class_scores, (total / np.maximum(times, 1))
    assert np.isnan(ours[~tested]).all()
    assert_allclose(ours[tested], expected[tested], rtol=0, atol=1e-10)
    p = np.exp(20 * expected[tested])
    p /= p.sum(axis=1, keepdims=True)
    assert_allclose(result.probabilities()[tested], p, rtol=0, atol=1e-8)
    assert_array_equal(result.predicted[tested], expected[tested].argmax(axis=1))


# -------------------------------------------------------------------------- regression


@pytest.mark.some(32)
@both_shapes
@pytest.mark.parametrize("method", ["linear", "tuned", "auto"])
@pytest.mark.parametrize("name", ["partition", "a part", "unequal"])
@pytest.mark.parametrize("steps", ["zscore", "quantiles", None], ids=str)
def test_numbers_are_predicted_as_by_refitting(steps, name, method, p):
    method = METHODS[method]
    reg = method.options(None)["reg"]
    X, codes = make_data(3, p)
    rng = np.random.default_rng(2)
    y = 40 + X[:, 0] + rng.standard_normal(len(X))
    table, columns = make_confounds(len(y), codes)
    problem = Problem(
        X, codes, STEPS.get(steps), cv=FOLDS[name], confounds=table, columns=columns
    )
    options = {"preprocess": problem.steps, "cv": problem.cv, "reg": reg}
    options |= {"n_permutations": 2, "random_state": 0, "permute": "free"}
    result = regress(X, y, confounds=table, scoring="neg_mean_squared_error", **options)
    total, times, errors = np.zeros(35), np.zeros(35), []
    for train, test in problem.folds:
        Z, Z_test = learned(problem, train, test)
        K, rows = linear_kernel(Z), np.arange(len(Z))
        lambdas = [method.penalties(Z, K, "numbers")]
        _, lam = pick([K], lambdas, y[train], rows, None, method.splits)
        K_test = linear_kernel(Z_test, Z)
        predicted = reference.regress(K, K_test, y[train, None], lam)[:, 0]
        errors.append((predicted - y[test]) ** 2)
        total[test] += predicted
        times[test] += 1
    tested = times > 0
    expected = total[tested] / times[tested]
    assert_allclose(result.predicted[tested], expected, rtol=1e-9)
    assert_allclose(result.scores, -np.mean(np.concatenate(errors)), rtol=1e-9)
    parameters = result.parameters
    assert parameters["n_confounds"] == 4
    names = {"zscore": recorded([StandardScaler()]), None: None}
    given = recorded([QuantileTransformer(n_quantiles=10)])
    assert parameters["preprocess"] == names.get(steps, given)


# ---------------------------------------------------------------------------- patterns


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


@pytest.mark.filterwarnings("ignore:No trial of class:UserWarning")
def test_a_class_that_no_fold_trains_on_has_no_pattern():
    X, codes = make_data(3, 6)
    problem = Problem(X, codes, "zscore", cv=[make(codes) for make in LOST[1:]])
    ours = class_patterns(predict(problem)[0], codes, 3, X)
    assert np.isnan(ours["class_folds"][2]).all()
    assert np.isfinite(ours["class_folds"][:2]).all()
    assert np.isfinite(ours["class"]).all()


@pytest.mark.parametrize("reg", [0.3, Tuned(TUNING)], ids=["fixed", "tuned"])
def test_patterns_of_epochs_are_in_the_units_of_their_channels(reg):
    X, codes = build.trials((12, 12, 12), 4, 3)
    epochs = build.epochs(X, codes, types=["eeg", "eeg", "mag", "grad"])
    cv = ShuffleSplit(3, test_size=6, train_size=24, random_state=0)
    options = {"cv": cv, "reg": reg, "preprocess": ["zscore", "pca"]}
    confounds = np.arange(36) + 6.0 * codes
    result = decode_epochs(epochs, codes, confounds=confounds, **options)
    raw = epochs.get_data(copy=False)
    scales = np.array([1e6, 1e6, 1e13, 1e12])  # as they are handed to models
    for t in range(3):
        problem = Problem(
            raw[:, :, t] * scales, codes, ["zscore", "pca"], columns=confounds[:, None]
        )
        if isinstance(reg, Tuned):
            break
        of_folds = [refit_patterns(problem, train) for train, _ in result.folds]
        expected = np.mean(of_folds, axis=0) / scales
        ours = result.pattern_maps["class_folds"][t]
        assert_allclose(ours * scales, expected * scales, rtol=0, atol=1e-8)
    maps = generalize_epochs(epochs, codes, confounds=confounds, **options).pattern_maps
    for kind in maps:
        ours, expected = maps[kind], result.pattern_maps[kind]
        assert_allclose(ours / expected, 1, rtol=1e-8)


@pytest.mark.parametrize("limit", [1, None], ids=["no memory", "memory"])
def test_positions_that_share_targets_are_decoded_as_alone(limit, monkeypatch):
    if limit:
        monkeypatch.setattr(positions, "_BLOCK_BYTES", limit)
    rng = np.random.default_rng(0)
    y, X = np.arange(40) % 3, rng.standard_normal((40, 5, 6))
    X[:, :, 4] *= 1 + np.arange(5)
    X[:, 0] += y[:, None]
    options = {"cv": 4, "n_permutations": 30, "random_state": 0, "scoring": "accuracy"}
    options["preprocess"] = "zscore"
    course = decode_arrays(X, y, verbose=False, **options)
    for t in range(6):
        alone = cross_validate(X[:, :, t], y, **options)
        assert_allclose(course.scores[t], alone.scores, rtol=0, atol=1e-12)
        assert_allclose(course.null[:, t], alone.null, rtol=0, atol=1e-12)
        assert_allclose(
            course.penalty["lambda"][t], alone.penalty["lambda"], rtol=1e-9, atol=0
        )
    assert len(np.unique(course.scores)) > 2


def test_the_position_of_an_error_is_found_among_several():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 5, 6))
    X[:32, :, 2] = 1.0  # one fold is left nothing to learn from
    with pytest.raises(ValueError, match=r"At 2\.000 s: In fold 4"):
        decode_arrays(X, np.arange(40) % 2, cv=KFold(5), preprocess="zscore")


@pytest.mark.parametrize("name", ["pca", "whiten"])
@pytest.mark.parametrize(("n", "p"), [(40, 7), (40, 39), (20, 60)])
def test_components_are_those_of_scikit_learn(name, n, p):
    rng = np.random.default_rng(0)
    X = 1e4 + rng.normal(size=(n, p)) * rng.uniform(0.1, 3, p)  # far from zero
    (step,) = check_steps(name)
    found, expected = fit_steps((step,), X)(X), clone(step).fit(X).transform(X)
    assert found.shape == expected.shape
    signs = np.sign((found * expected).sum(axis=0))
    assert_allclose(found * signs, expected, rtol=0, atol=1e-8)
