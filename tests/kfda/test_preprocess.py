"""Steps and confounds: what is learned, refused, and said of them, and that none leaks.

That they are learned anew in every fold is tested against refitted models in
``test_foldwise.py``.
"""

import inspect
import re
import warnings
from functools import cache

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.feature_selection import RFE, SelectKBest
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics.pairwise import linear_kernel, rbf_kernel
from sklearn.model_selection import KFold, LeaveOneOut
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    PolynomialFeatures,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)

from mvpa_kfda import (
    RBF,
    EmpiricalMap,
    GraphSmooth,
    Nystrom,
    Tuned,
    check_design,
    cross_validate,
    decode_arrays,
    decode_epochs,
    decode_regions,
    generalize_arrays,
    regress,
    searchlight,
)
from mvpa_kfda.kfda.preprocess import RemoveConfounds, check_steps, fit_steps
from mvpa_kfda.utils.checks import angle_unit
from tests import build, reference
from tests.entries import CODES as LABELS
from tests.entries import DATA as TRIALS
from tests.entries import (
    ENTRIES,
    OTHERS,
    epochs,
)
from tests.entries import N as N_TRIALS

N, P = 40, 5
X, CODES = build.features((20, 20), P)
ROWS, NUMBERS = np.arange(N), np.random.default_rng(0).normal(size=N)
#: Folds that train on every other one of the other trials.
THINNED = [(np.arange(0, 20, 2), np.arange(20, 40)), (np.arange(20, 40), np.arange(20))]


class Step(TransformerMixin, BaseEstimator):
    """A step that learns nothing, and what it makes of rows."""

    def __init__(self, function=None):
        self.function = function

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return self.function(X)


class Hiding(Step):
    """A step that learns from labels, but does not say that it needs them."""

    def fit(self, X, y=None):
        self.n_ = len(y)
        return self


class Plain:
    """A step that is no estimator of scikit-learn's, but can be used as one."""

    def __init__(self, factor=2.0):
        self.factor = factor

    def get_params(self, deep=True):
        return {"factor": self.factor}

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return self.factor * X


FOLD = r"In fold 0 of cv=StratifiedKFold\(.*\), by its training trials: "
ALLOWED = r"Allowed: None, 'zscore', 'pca', 'whiten', 'noise_scale', a .*or a list"
NOT_FINITE = r"in preprocess returns values that are not finite numbers\. Look at"
#: Steps that are refused, and the message.
WRONG_STEPS = [
    (StandardScaler, r"the class StandardScaler\. Pass an object, StandardScaler\(\)"),
    (["zscore", PCA], r"the class PCA\. Pass an object, PCA\(\)\.$"),
    ("zscroe", rf"'preprocess': 'zscroe'\. {ALLOWED}"),
    (3, rf"'preprocess': 3\. {ALLOWED}"),
    ({"zscore"}, rf"'preprocess': \{{'zscore'\}}\. {ALLOWED}"),
    (np.array(["zscore"]), rf"'preprocess': array\(.*{ALLOWED}"),
    (["zscore", None], rf"'preprocess': None\. {ALLOWED}"),
    ([["zscore"]], rf"'preprocess': \['zscore'\]\. {ALLOWED}"),
    (np.log, rf"'preprocess': <ufunc 'log'>\. {ALLOWED}"),
    (LogisticRegression(), rf"'preprocess': LogisticRegression\(\)\. {ALLOWED}"),
    (make_pipeline(StandardScaler(), LogisticRegression()), rf"(?s)Pipel.*{ALLOWED}"),
    (
        Hiding(),
        r"learns from the labels, but does not say so .*cross_val_score\(make",
    ),
    (Step(lambda X: np.where(X > X.min(), X, np.nan)), rf"{FOLD}.*Step.* {NOT_FINITE}"),
    (FunctionTransformer(np.log), rf"The step FunctionTransf.* {NOT_FINITE}"),
    (Step(lambda X: X.astype(str)), NOT_FINITE),
    (Step(lambda X: X + 1j), NOT_FINITE),
    (Step(lambda X: X[1:]), r"29 rows of 30: .*make_pipeline\(step, KernelFDA"),
    ([Step(lambda X: X[1:]), "zscore"], r"29 rows of 30: .*make_pipeline\(step, Ker"),
    (Step(lambda X: X[:, 0]), r"returns shape \(30,\) for 30 rows\. Allowed: one row"),
    (Step(lambda X: X[None]), r"returns shape \(1, 30, 5\) for 30 rows\. Allowed: one"),
    (Step(lambda X: X[:, :0]), r"shape \(30, 0\) for 30 rows\. Allowed: one row with"),
    (Step(csr_array), r"in preprocess returns a sparse matrix\. Allowed: a dense"),
    (KBinsDiscretizer(3, strategy="uniform"), "returns a sparse matrix"),
    (PCA(50), rf"{FOLD}The step PCA\(n_components=50.* these 30 trials with 5 feat"),
    (["pca", PCA(-1)], r"cannot be learned .*must be an int in the range"),
    (PCA("all"), r"cannot be learned .* must be .*'mle'"),
]


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("number", range(len(WRONG_STEPS)))
def test_wrong_steps_are_refused(number):
    steps, message = WRONG_STEPS[number]
    function = (cross_validate, regress, decode_arrays)[number % 3]
    data = X[:, :, np.newaxis] if function is decode_arrays else X
    y = NUMBERS if function is regress else CODES
    message = message.replace("StratifiedKFold", r"\w*KFold")
    with pytest.raises((ValueError, TypeError), match=message):
        function(data, y, cv=4, preprocess=steps)


def test_where_a_step_fails_is_said():
    data, log = np.stack([X, np.abs(X) + 0.1], axis=2), FunctionTransformer(np.log)
    with pytest.raises(ValueError, match=r"^At 0\.000 s: In fold 0 of cv=.*by its tra"):
        decode_arrays(data, CODES, cv=4, preprocess=log)
    with pytest.raises(ValueError, match=r"^At feature 0: In fold 0 .* with 1 feature"):
        searchlight(X, CODES, cv=4, adjacency=np.eye(P, dtype=bool), preprocess=PCA(2))
    wide = np.random.default_rng(0).normal(size=(N, 30))
    for number, cv in enumerate((THINNED, THINNED[::-1])):
        message = rf"^In fold {number} of the given cv iterable, by its"
        with pytest.raises(ValueError, match=message):
            cross_validate(wide, CODES, cv=cv, preprocess=PCA(15))


def test_what_may_be_a_step():
    options = {"cv": 4, "reg": 0.1}
    expected = cross_validate(X, CODES, **options)
    for none in ([], (), None):
        result = cross_validate(X, CODES, preprocess=none, **options)
        assert_array_equal(result.class_scores, expected.class_scores)
        assert result.parameters["preprocess"] is None
        assert result.trains is None
    # One that is no estimator of scikit-learn's, but can be used as one.
    result, expected = (
        cross_validate(X, CODES, preprocess=step, **options)
        for step in (Plain(3.0), FunctionTransformer(lambda Z: 3.0 * Z))
    )
    assert_allclose(result.class_scores, expected.class_scores, rtol=1e-12)
    # What has a `transform`, but is no transformer, is no step within another one.
    table = FunctionTransformer(
        lambda Z, by: 3.0 * Z, kw_args={"by": 1}, inv_kw_args=pd.DataFrame()
    )
    result = cross_validate(X, CODES, preprocess=table, **options)
    assert_allclose(result.class_scores, expected.class_scores, rtol=1e-12)
    # None is changed by what folds learn.
    step, pipeline = StandardScaler(), make_pipeline(RobustScaler())
    cross_validate(X, CODES, cv=4, preprocess=[step, pipeline])
    assert not hasattr(step, "mean_")
    assert not hasattr(pipeline[0], "scale_")


# ------------------------------------------------------- steps that learn from labels

#: Steps, and what a plain loop does with them.
BY_LABELS = {
    "noise_scale": ("noise_scale", [reference.NoiseScaling()]),
    "noise_scale, pca": (["noise_scale", PCA(3)], [reference.NoiseScaling(), PCA(3)]),
    "select": (SelectKBest(k=3), [SelectKBest(k=3)]),
    "within": (
        make_pipeline(StandardScaler(), SelectKBest(k=3)),
        [StandardScaler(), SelectKBest(k=3)],
    ),
    "RFE": (
        ["zscore", RFE(LogisticRegression(), n_features_to_select=4, step=0.5)],
        [StandardScaler(), RFE(LogisticRegression(), n_features_to_select=4, step=0.5)],
    ),
    "LDA": (LinearDiscriminantAnalysis(), [LinearDiscriminantAnalysis()]),
}
SHAPES = [((20, 20), 5), ((9, 14, 22), 30), ((8,) * 5, 8), ((30, 12), 60)]


@pytest.mark.parametrize(
    ("what", "shape", "kernel"),
    build.every_pair(
        [
            (what, shape, kernel)
            for what in BY_LABELS
            for shape in range(len(SHAPES))
            for kernel in ("linear", "rbf", "tuned")
        ]
    ),
)
def test_steps_that_learn_from_labels_are_refitted(what, shape, kernel):
    counts, p = SHAPES[shape]
    X, codes = build.features(counts, p)
    X *= np.geomspace(0.1, 10, p)
    (steps, by_hand), cv = BY_LABELS[what], KFold(4, shuffle=True, random_state=0)
    labels = build.permuted(codes, 2, cv)
    options = {"kernel": RBF(None) if kernel == "rbf" else kernel, "reg": 0.3}
    if kernel == "tuned":
        options = {"reg": [0.05, 2.0]}
    options |= {"cv": cv, "n_permutations": 2, "random_state": 0}
    found = cross_validate(X, codes, preprocess=steps, **options)
    kernel_by_hand = rbf_kernel if kernel == "rbf" else linear_kernel
    predicted = np.empty_like(labels)
    for y, row in zip(labels, predicted, strict=True):
        for train, test in cv.split(X):
            Z, Z_test = X[train], X[test]
            for step in map(clone, by_hand):
                step.fit(Z, y[train])
                Z, Z_test = step.transform(Z), step.transform(Z_test)
            Z, Z_test = Z - Z.mean(axis=0), Z_test - Z.mean(axis=0)
            K, K_test = kernel_by_hand(Z), kernel_by_hand(Z_test, Z)
            size = np.trace(reference.center(K, K)) / len(K)
            lam = 0.3 * size
            if kernel == "tuned":
                grid = np.array([[2.0 * size, 0.05 * size]])
                among, alone = np.arange(len(Z)), list(LeaveOneOut().split(Z))
                asked = y[train], among, alone, len(counts)
                _, lam, _ = reference.choose([K], grid, *asked)
            model = reference.fit(K, y[train], lam, len(counts))
            row[test] = model.predict(K_test)
            if y is labels[0]:
                scores = model.class_scores(K_test)
                assert_allclose(found.class_scores[test], scores, rtol=1e-7, atol=1e-9)
    assert_array_equal(found.predicted, predicted[0])
    assert_allclose(found.null, np.mean(predicted == labels, axis=1)[1:], rtol=1e-7)


def test_the_noise_scale_of_what_does_not_vary():
    """Of features that are constant within classes but for rounding it is one."""
    X, codes = build.features((20, 20), 4)
    X[:, 0], X[:, 1], X[:, 2] = 0, 1e6 + codes / 3, 1e-8 * X[:, 2]
    (step,) = check_steps("noise_scale")
    scale = clone(step).fit(X, codes).scale_
    assert_array_equal(scale[:2], 1)
    expected = reference.NoiseScaling().fit(X, codes).scale_
    assert_allclose(scale[2:], expected[2:], rtol=1e-12)


def test_values_have_no_classes_to_learn_from():
    message = r"SelectKBest\(k=3\) in preprocess learns from classes, and values are"
    with pytest.raises(ValueError, match=message):
        regress(X, NUMBERS, cv=4, preprocess=["zscore", SelectKBest(k=3)])


def test_chance_in_steps_is_the_same_every_time():
    wide = np.random.default_rng(0).normal(size=(N, 60))
    step = TruncatedSVD(3, n_iter=1)
    options = {"cv": 4, "n_permutations": 9, "preprocess": make_pipeline(step)}

    def scores(**changes):
        given = options | {"random_state": 0} | changes
        return cross_validate(wide, CODES, **given).class_scores

    one = cross_validate(wide, CODES, random_state=0, **options)
    assert_array_equal(scores(), one.class_scores)
    # As it was given: the seed is that of the analysis, of any size.
    ((_, kept),) = one.parameters["preprocess"][0]["steps"]
    assert kept["random_state"] is step.random_state is None
    assert (scores(random_state=1) != one.class_scores).any()
    seeded = TruncatedSVD(3, n_iter=1, random_state=5)
    assert (scores(preprocess=seeded) != one.class_scores).any()
    for seed in (2**40, 2**127):
        found = scores(random_state=seed), scores(random_state=seed % 2**32)
        assert_array_equal(*found)


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


GRAPH = GraphSmooth(build.chain(P))


@pytest.mark.parametrize(
    "step", [PCA(5), PolynomialFeatures(1, include_bias=False), "pca", "whiten"]
)
def test_kernels_that_know_features_by_their_places(step):
    name = re.escape(repr(step)[:3]) if not isinstance(step, str) else "PCA"
    message = rf"GraphSmooth\(.* by their places, and the step {name}.* in prep"
    for options in (
        {"kernel": GRAPH},
        {"kernel": EmpiricalMap(GRAPH)},
        {"kernel": GRAPH, "approx": Nystrom(5)},
        {"kernel": ["linear", GRAPH], "reg": "tuned"},
    ):
        for steps in (step, ["zscore", step]):
            with pytest.raises(ValueError, match=message):
                cross_validate(X, CODES, cv=4, preprocess=steps, **options)
        learned = {"preprocess": "zscore", "confounds": NUMBERS}
        cross_validate(X, CODES, cv=4, **learned, **options)


def test_kernel_matrices_have_no_features_to_learn_from():
    for options, given in (
        ({"preprocess": "zscore"}, "preprocess='zscore'"),
        ({"confounds": NUMBERS}, "confounds"),
    ):
        message = rf"given kernel matrices, and {given} needs features to learn from\. "
        for function, y in ((cross_validate, CODES), (regress, NUMBERS)):
            with pytest.raises(ValueError, match=message):
                function(X @ X.T, y, kernel="precomputed", **options)
        message = f"average=2 with a kernel that is not linear, .* where {given} has"
        with pytest.raises(ValueError, match=message):
            decode_arrays(X[:, :, None], CODES, average=2, kernel="rbf", **options)


# ------------------------------------------------------------------- wrong confounds


def spoiled(value):
    """Return the numbers with another one in the fourth place."""
    values = NUMBERS.astype(complex if isinstance(value, complex) else float)
    values[3] = value
    return values


MISSING = r"is missing or infinite for 1 of 40 trials \(first: 3\)\. Fill in"
WRONG_CONFOUNDS = [
    (NUMBERS[:-1], r"has shape \(39,\) for 40 trials\. Pass one value, shape \(40,\)"),
    (3.0, r"has shape \(\) for 40 trials"),
    (np.column_stack([NUMBERS, spoiled(-np.inf)]), f"column 1 of the array {MISSING}"),
    (["a", "b", "a", None] * 10, r"missing or infinite for 10 of 40 .*\(first: 3\)"),
    (["a"] * N, "the array is constant .'a' for all 40 trials"),
    (spoiled(1j), r"the array is complex\. Use real numbers\. .*np\.abs\(z\)"),
    (np.random.default_rng(0).normal(size=(N, 29)), "29 columns .* holds 30 trials"),
    (pd.DataFrame({"speed": spoiled(np.inf)}), f"the column 'speed' {MISSING}"),
    ([np.ma.masked] + [1.0] * (N - 1), "masked|missing"),
    (pd.array([1, None] * (N // 2), dtype="Int64"), "is masked for 20 of 40"),
]


@pytest.mark.parametrize("number", range(len(WRONG_CONFOUNDS)))
def test_wrong_confounds_are_refused(number):
    confounds, message = WRONG_CONFOUNDS[number]
    with pytest.raises((ValueError, TypeError), match=rf"confounds.*{message}"):
        cross_validate(X, CODES, cv=4, confounds=confounds)


@pytest.mark.parametrize("dtype", [">f8", ">i2", "f2", "u1", "g", object])
def test_confounds_of_any_type(dtype):
    values = np.arange(N) % 30
    result = check_design(CODES, confounds=values.astype(dtype)).confounds
    expected = check_design(CODES, confounds=values).confounds
    pd.testing.assert_frame_equal(result, expected)


# ------------------------------------------------------------- where confounds are from


def test_columns_of_metadata_are_confounds():
    trials, codes = build.trials((12, 12, 12), 4, 2)
    columns = {
        "speed": np.random.default_rng(0).normal(size=36),
        "block": np.where(np.arange(36) < 20, "early", "late"),
        "empty": np.where(np.arange(36) == 5, np.nan, 1.0),
    }
    epochs = build.epochs(trials, codes, **columns)
    options = {"cv": 4, "preprocess": "zscore", "keep_class_scores": True}
    result = decode_epochs(epochs, codes, confounds=["speed", "block"], **options)
    given = np.column_stack([columns["speed"], columns["block"] == "late"])
    same = decode_epochs(epochs, codes, confounds=given.astype(float), **options)
    assert_allclose(result.class_scores, same.class_scores, rtol=0, atol=1e-12)
    assert result.parameters["n_confounds"] == 2
    assert result.parameters["confounds"] == [
        {"name": "speed", "taken_as": "a number"},
        {"name": "block", "taken_as": "2 categories"},
    ]
    for wrong, message in (
        ("speeed", "'speeed' is not a metadata column. The columns are: 'word"),
        (["speed", "foo"], "confounds='foo' is not a metadata column"),
        ("empty", "column 'empty' is missing or infinite for 1 of 36 trials .first: 5"),
    ):
        with pytest.raises(ValueError, match=message):
            decode_epochs(epochs, codes, confounds=wrong, **options)
    epochs.metadata = None
    with pytest.raises(ValueError, match="'speed' names a metadata column, but these"):
        decode_epochs(epochs, codes, confounds="speed", **options)


def test_confounds_are_those_of_the_trials_that_are_decoded():
    trials, codes = build.trials((12, 12, 12), 4, 2)
    epochs = build.epochs(trials, codes, units={})
    speed, kept = np.arange(36.0) ** 2, codes != 1
    options = {"cv": 4, "preprocess": "zscore", "keep_class_scores": True}
    y = {"first": "ant", "second": "cat"}
    result = decode_epochs(epochs, y, confounds=speed, scale=None, **options)
    expected = decode_arrays(
        trials[kept], codes[kept], confounds=speed[kept], **options
    )
    assert_allclose(result.class_scores, expected.class_scores, rtol=0, atol=1e-12)
    others, other_codes = build.trials((5, 5, 5), 4, 2, seed=1)
    tested = {"X_test": others, "y_test": other_codes, "same_trials": False}
    message = r"^confounds are known for the training trials"
    with pytest.raises(ValueError, match=message):
        generalize_arrays(trials, codes, confounds=np.arange(36), **tested)


def test_features_that_confounds_explain_are_left_out():
    # But for rounding, which a step after it would scale up.
    noisy = X.copy()
    noisy[:, 1], noisy[:, 3] = 3 + 2 * NUMBERS, 1e5 - NUMBERS
    for steps in ("zscore", ["zscore", "whiten"], None):
        options = {"cv": 4, "preprocess": steps, "confounds": NUMBERS, "reg": 0.1}
        result = cross_validate(noisy, CODES, kernel=RBF(0.1), **options)
        few = cross_validate(noisy[:, [0, 2, 4]], CODES, kernel=RBF(0.1), **options)
        assert_allclose(result.class_scores, few.class_scores, rtol=0, atol=1e-10)
    with pytest.raises(ValueError, match=r"In fold 0 .* The trials do not differ"):
        cross_validate(noisy[:, [1, 3]], CODES, cv=4, confounds=NUMBERS)
    Z = np.random.default_rng(0).standard_normal((26, 3))
    Z[:, 0] = 0.1
    assert Z[:, 0].mean() != 0.1  # a constant is left no rounding, either
    found = RemoveConfounds(1).fit(Z).transform(Z)
    assert_array_equal(found[:, 0], 0)
    assert (found[:, 1] != 0).all()


# ------------------------------------------------------------------------ training sets


@pytest.mark.filterwarnings("ignore:.* trial.* of class:UserWarning")
@pytest.mark.parametrize("kernel", ["linear", RBF(0.1)])
@pytest.mark.parametrize(("test", "steps"), [(ROWS[20:], None), (ROWS[4:], "zscore")])
def test_one_training_trial_is_too_few(test, steps, kernel):
    with pytest.raises(ValueError, match=r"In fold 0 of the given cv iterable, by its"):
        cross_validate(X, CODES, kernel=kernel, cv=[([3], test)], preprocess=steps)


def flat(p):
    """Return features (n, p) that are constant, and not zero, in the first half."""
    Z = np.random.default_rng(0).normal(size=(N, p))
    Z[:20] = np.pi * (1 + np.arange(p)) / 7
    return Z


@pytest.mark.parametrize("p", [3, 60])
@pytest.mark.parametrize("steps", [None, "zscore", "pca", ["zscore", "pca"]], ids=str)
def test_flat_training_sets_are_refused(steps, p):
    cv = [(ROWS[20:], ROWS[:20]), (ROWS[:19], ROWS[20:])]
    for kernel in ("linear", "rbf", RBF(0.1), "polynomial"):
        with pytest.raises(ValueError, match=r"In fold 1 of the given cv it.* differ"):
            cross_validate(flat(p), CODES, kernel=kernel, cv=cv, preprocess=steps)


class Widened:
    """A kernel that is written with its address."""

    def __init__(self, gamma=0.05):
        self.gamma = gamma

    def __call__(self, X, Y):
        return rbf_kernel(X, Y, gamma=self.gamma)


def test_a_checkpoint_knows_what_folds_learn(tmp_path):
    def compute(**changes):
        options = {"preprocess": ["zscore", "whiten"], "confounds": NUMBERS}
        options |= {"reg": Tuned([3.0, 0.3]), "kernel": [Widened(), "linear"]}
        options |= {"cv": THINNED, "labels_img": np.arange(P) // 3 + 1}
        options |= {"standardize": False, "checkpoint": tmp_path / "run"}
        return decode_regions(X, CODES, **options | changes)

    assert compute() == compute()
    for changes, message in (
        ({"preprocess": "zscore"}, "preprocess was .* and is"),
        ({"confounds": NUMBERS[::-1]}, "the data of confounds differ"),
        ({"confounds": None}, "n_confounds was 1 and is 0"),
        ({"cv": [(a[1:], b) for a, b in THINNED]}, "the data of cv's folds differ"),
        ({"groups": ROWS // 4}, "roups"),
        ({"kernel": [Widened(0.1), "linear"]}, "data of the kernel's values differ"),
        ({"reg": Tuned([3.0, 0.1])}, r"reg was .* and is .*Tuned\("),
    ):
        with pytest.raises(ValueError, match=f"checkpoint of another run.*{message}"):
            compute(**changes)


# ---------------------------------------------------------- numbers that stand for runs


N_RUNS = 48
RNG = np.random.default_rng(0)
RUNS = np.repeat(np.arange(1, 7), 8)
NAMES = np.concatenate([RNG.permutation(["cat", "dog"] * 4) for _ in range(6)])
DATA = RNG.normal(size=(N_RUNS, 6)) + 0.5 * (NAMES == "cat")[:, None] + RUNS[:, None]
RATING = RNG.integers(1, 8, size=N_RUNS)
RT = 400 + 100 * RNG.normal(size=N_RUNS)
PHASE = RNG.uniform(-np.pi, np.pi, size=N_RUNS)
BY_NAME = np.array([f"run{k}" for k in RUNS])


def problems(confounds, groups=RUNS):
    """Return what a design says of how confounds are taken."""
    found = check_design(NAMES, groups, confounds=confounds).problems
    return [each for each in found if each.name in ("numbered", "angles", "unseen")]


def warned(function, *args, **options):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        function(*args, **options)
    return [str(each.message) for each in caught]


#: Values, and whether they seem to number runs.
NUMBERED = [
    (RUNS - 1.0, True),  # as of a .mat file
    (np.repeat([1, 2, 4, 5, 6, 7], 8), True),  # a run is missing
    (np.repeat([3, 1, 2], 16), True),  # in another order
    (RUNS % 3, False),  # neither in a row nor the groups
    (RATING, False),
    (np.arange(N_RUNS), False),  # the number of the trial, a trend
    (RUNS - RUNS.mean(), False),  # a trend, as the advice has it
    (RUNS > 3, False),
    (np.where(RUNS > 3, 1, 2), False),  # two numbers are two categories
    (RUNS.astype(str), False),
    (np.repeat([23, 31, 45, 52, 60, 38], 8), False),  # ages of subjects
]


def test_numbers_that_seem_to_number_runs_are_warned_of():
    for values, found in NUMBERED:
        for groups in (None, RUNS):
            said = [problem.name for problem in problems(values, groups)]
            assert ("numbered" in said) == found
    rows = RNG.permutation(N_RUNS)  # of the groups they need no stretches
    design = check_design(NAMES[rows], RUNS[rows], confounds=RUNS[rows])
    (numbered,) = (each for each in design.problems if each.name == "numbered")
    assert "whole numbers 1 to 6, one for each group" in numbered.text
    assert numbered.numbers == {"values": 6}
    design = check_design(NAMES[rows], confounds=RUNS[rows])
    assert "numbered" not in [each.name for each in design.problems]


def test_every_decoding_function_warns_in_the_words_of_the_list():
    table = pd.DataFrame({"label": NAMES, "run": RUNS})
    design = check_design((table, "label"), confounds="run")
    (problem,) = (each for each in design.problems if each.name == "numbered")
    assert problem.severity == "warning"
    assert problem.text.startswith(
        "Confounds: the column 'run' holds the whole numbers 1 to 6, each in one "
    )
    options = {"confounds": "run", "standardize": False, "adjacency": np.eye(6)}
    assert problem.text in warned(searchlight, DATA, (table, "label"), **options)
    text = problem.text.replace("the column 'run'", "the array")
    assert text in warned(regress, DATA, RT, confounds=RUNS)


@pytest.mark.parametrize(
    "categories",
    [
        pd.Categorical(RUNS),
        pd.Series(RUNS, dtype="category"),
        pd.DataFrame({"run": pd.Categorical(RUNS)}),
        BY_NAME.astype(object),
    ],
    ids=["Categorical", "Series", "frame", "objects"],
)
def test_categories_are_taken_out_as_such(categories):
    cv = KFold(4, shuffle=True, random_state=0)  # with all runs in all training sets
    result = cross_validate(DATA, NAMES, cv=cv, confounds=categories)
    indicators = (RUNS[:, None] == np.arange(2, 7)).astype(float)
    expected = cross_validate(DATA, NAMES, cv=cv, confounds=indicators)
    assert_allclose(result.class_scores, expected.class_scores, rtol=0, atol=1e-10)
    assert result.parameters["n_confounds"] == 5
    (record,) = result.parameters["confounds"]
    assert record["taken_as"] == "6 categories"


def test_a_design_says_what_confounds_are_taken_for():
    confounds = pd.DataFrame({"rt": RT, "run": BY_NAME})
    design = check_design(NAMES, RUNS, confounds=confounds)
    assert design.confounds["taken_as"].tolist() == ["a number", "6 categories"]
    assert "Confound, the column 'run': 6 categories, eta squared" in str(design)


def test_the_units_of_confounds_do_not_matter():
    signal = RNG.normal(size=N_RUNS)
    data = DATA + 2 * signal[:, None] + RT[:, None] / 50

    def scores(unit):
        confounds = np.column_stack([RT, unit * signal])
        return cross_validate(data, NAMES, cv=4, confounds=confounds).class_scores

    for unit in (1e-13, 1e13):
        assert_allclose(scores(unit), scores(1.0), rtol=0, atol=1e-10)


# ------------------------------------------------------------------------------- angles


#: Features, and their unit if they are angles.
ANGLES = [
    (RNG.uniform(-np.pi, np.pi, size=(100, 30)).astype("f4"), "radians"),
    (RNG.uniform(0, 2 * np.pi, size=(100, 30)).round(3), "radians"),
    # Features that fill about as much, of which some random ones always do.
    (RNG.uniform(-np.pi, np.pi, size=(20, 8)), None),
    (RNG.uniform(-3.12, 3.12, size=(200, 50)), None),
    (RNG.triangular(-np.pi, 0, np.pi, size=(200, 50)), None),
]


def test_features_that_are_angles_are_known_by_their_range():
    for values, unit in ANGLES:
        assert angle_unit(values, "") == unit, values


def test_angles_are_warned_of():
    beside = np.column_stack([RT, PHASE])
    (problem,) = problems(beside)
    assert problem.name == "angles"
    assert "column 1 of the array looks like angles in radians" in problem.text
    assert "np.column_stack([np.sin(angle), np.cos(angle)])" in problem.text
    assert problem.text in warned(cross_validate, DATA, NAMES, confounds=beside)
    assert problems(np.column_stack([np.sin(PHASE), np.cos(PHASE)])) == []
    (text,) = warned(regress, DATA, PHASE)
    assert text.startswith("y looks like angles in radians")
    assert text.endswith("far apart. Pass circular=True.")
    assert warned(regress, DATA, np.sin(PHASE)) == []


@pytest.mark.parametrize("function", [cross_validate, decode_epochs, generalize_arrays])
def test_angles_as_features_are_warned_of(function):
    rng = np.random.default_rng(0)  # of its own: the order of tests must not matter
    angles = rng.uniform(-np.pi, np.pi, size=(N_RUNS, 60, 2))
    data = angles[:, :, 0] if function is cross_validate else angles
    if function is decode_epochs:
        data = build.power(np.exp(1j * angles).real)
        data._data = np.broadcast_to(angles[:, :, None], data.data.shape).copy()
    texts = warned(function, data, NAMES, cv=4)
    assert sum("looks like angles in radians" in text for text in texts) == 1
    assert any("np.concatenate([np.sin(" in text for text in texts)


# ---------------------------------------------------- categories no training set has


def without(confounds, train):
    """Return features less the effects of categories, of new ones their mean effect."""
    trained, given = DATA[train], confounds[train]
    means = {level: trained[given == level].mean(axis=0) for level in np.unique(given)}
    of_new = np.mean(list(means.values()), axis=0)
    effect = np.stack([means.get(each, of_new) for each in confounds])
    return DATA - effect + trained.mean(axis=0)


@pytest.mark.parametrize("new", ["run1", "run3", "run6"])
@pytest.mark.parametrize("more", [False, True], ids=["alone", "beside a number"])
def test_a_new_category_has_the_mean_effect_of_the_others(new, more):
    levels = np.unique(BY_NAME)
    drop = np.isin(np.arange(N_RUNS), [0, 1, 2, 9, 30])  # to have unequal numbers
    train = (BY_NAME != new) & ~drop
    indicators = (BY_NAME[:, None] == levels).astype(float)
    augmented, expected = np.hstack([DATA, indicators]), without(BY_NAME, train)
    if more:
        columns = np.column_stack([indicators, RT])
        model = LinearRegression().fit(columns[train], DATA[train])
        coef = model.coef_[:, :-1].T
        effect = indicators @ coef
        effect[BY_NAME == new] = coef[levels != new].mean(axis=0)
        effect += np.outer(RT, model.coef_[:, -1])
        expected = DATA - effect + effect[train].mean(axis=0)
        augmented = np.column_stack([augmented, RT / 100])
    step = RemoveConfounds(augmented.shape[1] - 6).fit(augmented[train])
    assert_allclose(step.transform(augmented), expected, rtol=0, atol=1e-10)


def test_new_categories_are_warned_of():
    (problem,) = problems(BY_NAME)
    assert problem.name == "unseen"
    assert problem.numbers == {"cases": 6, "category": "run1"}
    assert problem.text.startswith(
        "Confounds: category 'run1' of the array is tested, but is not among the "
        "training trials of fold 0 of cv=LeaveOneGroupOut() (and so in 5 more cases)."
    )
    options = {"groups": RUNS, "confounds": BY_NAME}
    for function, y in ((cross_validate, NAMES), (regress, RT)):
        assert problem.text in warned(function, DATA, y, **options)
    hands = np.where(RNG.random(N_RUNS) < 0.5, "left", "right")
    assert problems(hands) == []
    assert problems(BY_NAME, None) == []
    (problem,) = problems(np.where(np.arange(N_RUNS) == 20, "odd", hands))
    assert problem.numbers == {"cases": 1, "category": "odd"}
    assert "(and so" not in problem.text
    # What they are called does not matter.
    with pytest.warns(UserWarning, match="is tested, but is not among the training"):
        one, other = (
            cross_validate(DATA, NAMES, groups=RUNS, confounds=each)
            for each in (BY_NAME, np.array(list("fbdcea"))[RUNS - 1])
        )
    assert_allclose(one.class_scores, other.class_scores, rtol=0, atol=1e-12)
    # Trials that are tested without folds.
    seen = np.arange(N_RUNS) % 4 < 2
    kinds = np.where(seen, "a", np.where(np.arange(N_RUNS) % 3, "a", "b"))
    kinds[0] = "c"
    data = np.stack([DATA, DATA], axis=2)
    texts = warned(generalize_arrays, data, NAMES, train_on=seen, confounds=kinds)
    (text,) = (each for each in texts if "Confounds" in each)
    assert "category 'b' of the array is tested, but is not among the train" in text


# ------------------------------------------- test trials know nothing of one another


#: Folds with all others in training, and with every other one of them.
WHOLE = list(KFold(3).split(LABELS))
THIN = [(train[::2], test) for train, test in WHOLE]
FOLDS = {"thinned": THIN, "whole": WHOLE}
#: A trial that the first fold tests and no thinned training set has, and one that the
#: two other training sets have.
NEVER, LATER = 3, 2
SPEED = TRIALS[:, 1, 0] + np.sin(np.arange(N_TRIALS))
LEARNED = {
    "affine": {"preprocess": ["zscore", PCA(2, svd_solver="full")]},
    "quantiles": {"preprocess": QuantileTransformer(n_quantiles=9)},
    "rbf": {"preprocess": "zscore", "kernel": "rbf"},
    "tuned": {"preprocess": "zscore", "reg": Tuned([3.0, 0.3, 0.03])},
    "auto": {"reg": "auto"},
    "z-scores, auto": {"preprocess": "zscore", "reg": "auto"},
    "ledoit_wolf": {"preprocess": "pca", "reg": "ledoit_wolf"},
    "nothing": {"reg": 0.3},
}
every_method = pytest.mark.parametrize("method", LEARNED)
FOLDED = {name: entry for name, entry in ENTRIES.items() if not entry.tests_others}
OTHER = {name: entry for name, entry in ENTRIES.items() if entry.tests_others}


def far_away(X, trial):
    """Return the data with a trial far from all others, in a direction of its own."""
    X = X.copy()
    X[trial] = 1e6 * (1 + np.arange(X[trial].size).reshape(X[trial].shape) % 3) + X[0]
    return X


def predictions(entry, X, speed, cv, method):
    """Return predictions (..., n) and class scores (..., n, c), if there are any."""
    options = {"cv": cv, "confounds": speed} | LEARNED[method]
    known = inspect.signature(entry.function).parameters
    if entry.has("keep_class_scores"):
        options["keep_class_scores"] = True
    if "standardize" in known:  # which is done to all images at once
        options["standardize"] = False
    result = entry(X, **options)
    scores = getattr(result, "class_scores", None)
    return result.predicted, scores


@cache
def unspoiled(entry, cv, method):
    """Return the same of the data as they are, computed once."""
    return predictions(entry, TRIALS, SPEED, FOLDS[cv], method)


def assert_unchanged(found, before, trials):
    """Assert that what is predicted of some trials is what it was."""
    if before[0].dtype.kind == "f":
        assert_allclose(found[0][..., trials], before[0][..., trials], rtol=1e-7)
    else:
        assert_array_equal(found[0][..., trials], before[0][..., trials])
    if before[1] is not None:
        assert_allclose(
            found[1][..., trials, :], before[1][..., trials, :], rtol=1e-9, atol=1e-8
        )


def changed(found, before, trials):
    """Tell whether any prediction or score of some trials is another."""
    (ours, scores), (theirs, expected) = found, before
    differ = (ours != theirs)[..., trials].any()
    return differ or (scores is not None and (scores != expected)[..., trials, :].any())


@pytest.mark.some(18)
@pytest.mark.parametrize(("name", "method"), build.by_turns(FOLDED, LEARNED))
def test_test_trials_change_no_prediction_but_their_own(name, method):
    entry = FOLDED[name]
    speed = far_away(SPEED, NEVER)
    before = unspoiled(entry, "thinned", method)
    found = predictions(entry, far_away(TRIALS, NEVER), speed, THIN, method)
    assert_unchanged(found, before, np.arange(N_TRIALS) != NEVER)
    assert changed(found, before, [NEVER])


@pytest.mark.some(18)
@pytest.mark.parametrize("cv", FOLDS)
@pytest.mark.parametrize(("name", "method"), build.by_turns(FOLDED, [*LEARNED][::-1]))
def test_trials_change_predictions_where_they_are_trained_with(name, method, cv):
    entry = FOLDED[name]
    before = unspoiled(entry, cv, method)
    speed = far_away(SPEED, LATER)
    found = predictions(entry, far_away(TRIALS, LATER), speed, FOLDS[cv], method)
    first = np.isin(np.arange(N_TRIALS), WHOLE[0][1])
    assert_unchanged(found, before, first & (np.arange(N_TRIALS) != LATER))
    assert changed(found, before, ~first)


@every_method
@pytest.mark.parametrize("entry", OTHER.values(), ids=OTHER)
def test_other_trials_are_tested_each_by_itself(entry, method):
    other = far_away(OTHERS, 4)
    given = {"X_test": other} if "X_test" in entry.options else {}
    given = given or {"test_epochs": epochs(other)}
    before, found = (
        entry(**LEARNED[method], **options).predicted for options in ({}, given)
    )
    others = np.arange(len(other)) != 4
    assert_array_equal(found[..., others], before[..., others])
    assert (found[..., 4] != before[..., 4]).any()


def test_steps_that_mix_the_trials_they_are_given_are_refused():
    rng = np.random.default_rng(0)
    mixing = {
        "means": lambda Z: Z - Z.mean(axis=0),
        "ranks": lambda Z: Z.argsort(axis=0).argsort(axis=0).astype(float),
        "one": lambda Z: np.hstack([Z, Z[-1:] + np.zeros_like(Z)]),
        "chance": lambda Z: Z + rng.normal(size=Z.shape),
    }
    for function in mixing.values():
        step = FunctionTransformer(function)
        for steps in (step, ["zscore", step], [step, "zscore"]):
            with pytest.raises(ValueError, match=r"the other trials .* or on chance"):
                cross_validate(TRIALS[:, :, 0], LABELS, cv=4, preprocess=steps)
