"""What steps, confounds and training sets are refused, and what is said of them."""

import re

import mne
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer
from sklearn.cross_decomposition import PLSRegression
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.feature_selection import RFE, SelectFromModel, SelectKBest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import TimeSeriesSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    PolynomialFeatures,
    RobustScaler,
    StandardScaler,
)

from mvpa_kfda import (
    RBF,
    EmpiricalMap,
    GraphSmooth,
    KernelFDA,
    Nystrom,
    Tuned,
    compare,
    cross_validate,
    decode_arrays,
    decode_epochs,
    decode_regions,
    generalize_arrays,
    regress,
    searchlight,
)
from mvpa_kfda.decoding import positions, run
from tests import build

N, P = 40, 5
X, CODES = build.features((20, 20), P)
ROWS, NUMBERS = np.arange(N), np.random.default_rng(0).normal(size=N)
#: Folds that train on every other one of the other trials.
THINNED = [(np.arange(0, 20, 2), np.arange(20, 40)), (np.arange(20, 40), np.arange(20))]


class Step(TransformerMixin, BaseEstimator):
    """A step that learns nothing."""

    def fit(self, X, y=None):
        return self


class NaNs(Step):
    def transform(self, X):
        return np.where(X > X.min(), X, np.nan)


class FewerRows(Step):
    def transform(self, X):
        return X[1:]


class OneAxis(Step):
    def transform(self, X):
        return X[:, 0]


class MoreAxes(Step):
    def transform(self, X):
        return X[None]


class Nothing(Step):
    def transform(self, X):
        return X[:, :0]


class Sparse(Step):
    def transform(self, X):
        return csr_array(X)


class Texts(Step):
    def transform(self, X):
        return X.astype(str)


class Complex(Step):
    def transform(self, X):
        return X + 1j


class Needy(Step):
    def fit(self, X, y):
        return self

    def transform(self, X):
        return X


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
ALLOWED = r"Allowed: None, 'zscore', 'pca', 'whiten', a transformer .*or a list"
PIPELINE = (
    r"in preprocess looks at the labels, .*anew for every permutation of them\. To "
    r"refit .*cross_val_score\(make_pipeline\(step, KernelFDA\(\)\), X, y\)\.$"
)
NOT_FINITE = r"in preprocess returns values that are not finite numbers\. Look at"
WRONG_STEPS = [
    (StandardScaler, r"the class StandardScaler\. Pass an object, StandardScaler\(\)"),
    (["zscore", PCA], r"the class PCA\. Pass an object, PCA\(\)\.$"),
    ("zscroe", rf"'preprocess': 'zscroe'\. {ALLOWED}"),
    ("", rf"'preprocess': ''\. {ALLOWED}"),
    (3, rf"'preprocess': 3\. {ALLOWED}"),
    (True, rf"'preprocess': True\. {ALLOWED}"),
    ({"zscore"}, rf"'preprocess': \{{'zscore'\}}\. {ALLOWED}"),
    (np.array(["zscore"]), rf"'preprocess': array\(.*{ALLOWED}"),
    (["zscore", None], rf"'preprocess': None\. {ALLOWED}"),
    ([["zscore"]], rf"'preprocess': \['zscore'\]\. {ALLOWED}"),
    (np.log, rf"'preprocess': <ufunc 'log'>\. {ALLOWED}"),
    (LogisticRegression(), rf"'preprocess': LogisticRegression\(\)\. {ALLOWED}"),
    (
        make_pipeline(StandardScaler(), LogisticRegression()),
        rf"(?s)'preprocess': Pipeline\(.*{ALLOWED}",
    ),
    (LinearDiscriminantAnalysis(), rf"LinearDiscriminantAnalysis\(\) {PIPELINE}"),
    (KernelFDA(), rf"The step KernelFDA\(\) {PIPELINE}"),
    (SelectKBest(k=2), rf"The step SelectKBest\(k=2\) {PIPELINE}"),
    (SelectFromModel(LogisticRegression()), rf"The step SelectFromModel.* {PIPELINE}"),
    (RFE(LogisticRegression()), rf"The step RFE.* {PIPELINE}"),
    (PLSRegression(), rf"The step PLSRegression\(\) {PIPELINE}"),
    (mne.decoding.CSP(), rf"The step CSP\(.*\) {PIPELINE}"),
    (Needy(), rf"The step Needy\(\) {PIPELINE}"),
    (["zscore", make_pipeline(StandardScaler(), SelectKBest(k=1))], rf"(?s){PIPELINE}"),
    (ColumnTransformer([("best", SelectKBest(k=1), [0, 1])]), PIPELINE),
    (NaNs(), rf"{FOLD}The step NaNs\(\) {NOT_FINITE}"),
    (FunctionTransformer(np.log), rf"The step FunctionTransf.* {NOT_FINITE}"),
    (Texts(), NOT_FINITE),
    (Complex(), NOT_FINITE),
    (
        FewerRows(),
        r"FewerRows\(\) .* returns 29 rows of 30: .*make_pipeline\(step, KernelFDA",
    ),
    (
        [FewerRows(), "zscore"],
        r"returns 29 rows of 30: .*make_pipeline\(step, KernelFDA",
    ),
    (OneAxis(), r"returns shape \(30,\) for 30 rows\. Allowed: one row"),
    (MoreAxes(), r"returns shape \(1, 30, 5\) for 30 rows\. Allowed: one row"),
    (Nothing(), r"returns shape \(30, 0\) for 30 rows\. Allowed: one row with one or"),
    (Sparse(), r"Sparse\(\) in preprocess returns a sparse matrix\. Allowed: a dense"),
    (KBinsDiscretizer(3, strategy="uniform"), "returns a sparse matrix"),
    (
        PCA(50),
        rf"{FOLD}The step PCA\(n_components=50.* from these 30 trials with 5 feat",
    ),
    (["pca", PCA(-1)], r"cannot be learned .*must be an int in the range"),
    (PCA("all"), r"cannot be learned .* must be .*'mle'"),
]


@pytest.mark.parametrize("function", [cross_validate, regress, decode_arrays])
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize(("steps", "message"), WRONG_STEPS)
def test_wrong_steps_are_refused(steps, message, function):
    data = X[:, :, np.newaxis] if function is decode_arrays else X
    y = NUMBERS if function is regress else CODES
    message = message.replace("StratifiedKFold", r"\w*KFold")
    with pytest.raises((ValueError, TypeError), match=message):
        function(data, y, cv=4, preprocess=steps)


def test_where_a_step_fails_is_said():
    data = np.stack([X, np.abs(X) + 0.1], axis=2)
    step = FunctionTransformer(np.log)
    with pytest.raises(
        ValueError, match=r"^At 0\.000 s: In fold 0 of cv=.*by its trai"
    ):
        decode_arrays(data, CODES, cv=4, preprocess=step)
    with pytest.raises(
        ValueError, match=r"^At feature 0: In fold 0 .* with 1 feature:"
    ):
        searchlight(X, CODES, cv=4, adjacency=np.eye(P, dtype=bool), preprocess=PCA(2))
    wide = np.random.default_rng(0).normal(size=(N, 30))
    with pytest.raises(
        ValueError, match=r"^In fold 0 of the given cv iterable, by its"
    ):
        cross_validate(wide, CODES, cv=THINNED, preprocess=PCA(15))
    with pytest.raises(
        ValueError, match=r"^In fold 1 of the given cv iterable, by its"
    ):
        cross_validate(wide, CODES, cv=THINNED[::-1], preprocess=PCA(15))


def test_no_steps_are_no_steps():
    expected = cross_validate(X, CODES, cv=4)
    for none in ([], (), None):
        result = cross_validate(X, CODES, cv=4, preprocess=none)
        assert_array_equal(result.class_scores, expected.class_scores)
        assert result.parameters["preprocess"] is None
        assert result.trains is None


def test_a_step_need_not_be_an_estimator_of_scikit_learn():
    result = cross_validate(X, CODES, cv=4, preprocess=Plain(3.0), reg=0.1)
    expected = cross_validate(
        X, CODES, cv=4, preprocess=FunctionTransformer(lambda Z: 3.0 * Z), reg=0.1
    )
    assert_allclose(result.class_scores, expected.class_scores, rtol=1e-12)


def test_steps_are_not_changed_by_learning():
    step = StandardScaler()
    steps = [step, make_pipeline(RobustScaler())]
    cross_validate(X, CODES, cv=4, preprocess=steps)
    assert not hasattr(step, "mean_")
    assert not hasattr(steps[1][0], "scale_")
    assert len(steps) == 2


def test_chance_in_steps_is_the_same_every_time():
    wide = np.random.default_rng(0).normal(size=(N, 60))
    step = TruncatedSVD(3, n_iter=1)
    options = {"cv": 4, "n_permutations": 9, "random_state": 0}
    one = cross_validate(wide, CODES, preprocess=make_pipeline(step), **options)
    two = cross_validate(wide, CODES, preprocess=make_pipeline(step), **options)
    assert_array_equal(one.class_scores, two.class_scores)
    # As it was given: the seed is that of the analysis.
    ((_, kept),) = one.parameters["preprocess"][0]["steps"]
    assert kept["random_state"] is None
    again = cross_validate(
        wide, CODES, preprocess=make_pipeline(step), **options | {"random_state": 1}
    )
    assert (again.class_scores != one.class_scores).any()
    seeded = TruncatedSVD(3, n_iter=1, random_state=5)
    other = cross_validate(wide, CODES, preprocess=seeded, **options)
    assert (other.class_scores != one.class_scores).any()
    assert step.random_state is None


GRAPH = GraphSmooth(build.chain(P))
PLACES = r"GraphSmooth\(.* knows the features by their places, and the step {} in prep"


@pytest.mark.parametrize(
    ("kernel", "options"),
    [
        (GRAPH, {}),
        (EmpiricalMap(GRAPH), {}),
        (GRAPH, {"approx": Nystrom(5)}),
        (["linear", GRAPH], {"reg": "tuned"}),
    ],
)
@pytest.mark.parametrize(
    "step", [PCA(5), PolynomialFeatures(1, include_bias=False), "pca", "whiten"]
)
def test_kernels_that_know_features_by_their_places(kernel, options, step):
    name = re.escape(repr(step)[:3]) if not isinstance(step, str) else "PCA"
    for steps in (step, ["zscore", step]):
        with pytest.raises(ValueError, match=PLACES.format(rf"{name}.*")):
            cross_validate(X, CODES, kernel=kernel, cv=4, preprocess=steps, **options)
    cross_validate(X, CODES, kernel=kernel, cv=4, preprocess="zscore", **options)
    cross_validate(X, CODES, kernel=kernel, cv=4, confounds=NUMBERS, **options)


@pytest.mark.parametrize(
    ("options", "given"),
    [
        ({"preprocess": "zscore"}, "preprocess='zscore'"),
        ({"confounds": NUMBERS}, "confounds"),
    ],
)
def test_kernel_matrices_have_no_features_to_learn_from(options, given):
    message = rf"given kernel matrices, and {given} needs features to learn from\. Pass"
    with pytest.raises(ValueError, match=message):
        cross_validate(X @ X.T, CODES, kernel="precomputed", **options)
    with pytest.raises(ValueError, match=message):
        regress(X @ X.T, NUMBERS, kernel="precomputed", **options)


# --------------------------------------------------------------------------- confounds


def spoiled(value):
    """Return the numbers with another one in the fourth place."""
    values = NUMBERS.astype(complex if isinstance(value, complex) else float)
    values[3] = value
    return values


MISSING = r"is missing or infinite for 1 of 40 trials \(first: 3\)\. Fill in"
WRONG_CONFOUNDS = [
    (NUMBERS[:-1], r"has shape \(39,\) for 40 trials\. Pass one value, shape \(40,\)"),
    (np.ones((N, 1, 1)), r"has shape \(40, 1, 1\) for 40 trials"),
    (np.ones((N, 0)), r"has shape \(40, 0\) for 40 trials"),
    ([], r"has shape \(0,\) for 40 trials"),
    (3.0, r"has shape \(\) for 40 trials"),
    ([[1, 2]] * 39 + [[1]], "rows of different lengths"),
    (spoiled(np.nan), f"the array {MISSING}"),
    (spoiled(-np.inf), f"the array {MISSING}"),
    (np.column_stack([NUMBERS, spoiled(np.nan)]), f"column 1 of the array {MISSING}"),
    (["a", "b", "a", None] * 10, r"missing or infinite for 10 of 40 .*\(first: 3\)"),
    (np.full(N, 2.5), r"the array is constant \(2\.5 for all 40 trials\) and "),
    (["a"] * N, "the array is constant .'a' for all 40 trials"),
    (spoiled(1j), r"the array is complex\. Use real numbers"),
    (
        [f"trial {i}" for i in range(N)],
        "a category of its own for each of the 40 .*'tr",
    ),
    (
        np.random.default_rng(0).normal(size=(N, 29)),
        r"has 29 columns .* holds 30 trials",
    ),
    (
        "speed",
        r"=\['speed'\] names columns, but there is no table here\. Pass",
    ),
    (["speed", "block"], "names columns, but there is no table here"),
    (
        pd.DataFrame({"speed": NUMBERS[1:]}),
        "the column 'speed' has 39 rows for 40 tria",
    ),
    (pd.DataFrame({"speed": spoiled(np.inf)}), f"the column 'speed' {MISSING}"),
    (np.where(CODES, np.inf, -np.inf), "missing or infinite for 40 of 40"),
]


@pytest.mark.parametrize("function", [cross_validate, regress])
@pytest.mark.parametrize(("confounds", "message"), WRONG_CONFOUNDS)
def test_wrong_confounds_are_refused(confounds, message, function):
    y = NUMBERS if function is regress else CODES
    message = message.replace("StratifiedKFold", r"\w*KFold")
    with pytest.raises((ValueError, TypeError), match=rf"confounds.*{message}"):
        function(X, y, cv=4, confounds=confounds)


def test_columns_of_metadata_are_confounds():
    trials, codes = build.trials((12, 12, 12), 4, 2)
    speed = np.random.default_rng(0).normal(size=36)
    block = np.where(np.arange(36) < 20, "early", "late")
    empty = np.where(np.arange(36) == 5, np.nan, 1.0)
    epochs = build.epochs(trials, codes, speed=speed, block=block, empty=empty)
    options = {"cv": 4, "preprocess": "zscore", "keep_class_scores": True}
    result = decode_epochs(epochs, codes, confounds=["speed", "block"], **options)
    columns = np.column_stack([speed, block == "late"]).astype(float)
    same = decode_epochs(epochs, codes, confounds=columns, **options)
    assert_allclose(result.class_scores, same.class_scores, rtol=0, atol=1e-12)
    assert result.parameters["n_confounds"] == 2
    named = [("speed", "a number"), ("block", "2 categories")]
    assert result.parameters["confounds"] == [
        {"name": name, "taken_as": taken_as} for name, taken_as in named
    ]
    other = decode_epochs(epochs, codes, confounds="speed", **options)
    assert (other.class_scores != result.class_scores).any()
    for wrong, message in (
        ("speeed", "confounds='speeed' is not a metadata column. The columns are: 'wo"),
        (["speed", "foo"], "confounds='foo' is not a metadata column"),
        ("empty", "column 'empty' is missing or infinite for 1 of 36 trials .first: 5"),
        (speed[1:], r"confounds has shape \(35,\) for 36 trials"),
    ):
        with pytest.raises(ValueError, match=message):
            decode_epochs(epochs, codes, confounds=wrong, **options)
    epochs.metadata = None
    with pytest.raises(ValueError, match="'speed' names a metadata column, but these"):
        decode_epochs(epochs, codes, confounds="speed", **options)


def test_confounds_are_those_of_the_epochs_that_are_decoded():
    trials, codes = build.trials((12, 12, 12), 4, 2)
    epochs = build.epochs(trials, codes, units={})
    speed = np.arange(36.0) ** 2
    kept = codes != 1
    options = {"cv": 4, "preprocess": "zscore", "keep_class_scores": True}
    y = {"first": "ant", "second": "cat"}
    result = decode_epochs(epochs, y, confounds=speed, scale=None, **options)
    expected = decode_arrays(
        trials[kept], codes[kept], confounds=speed[kept], **options
    )
    assert_allclose(result.class_scores, expected.class_scores, rtol=0, atol=1e-12)


def test_columns_of_the_table_of_labels_are_confounds(tmp_path):
    table = pd.DataFrame({"word": build.NAMES[CODES], "speed": NUMBERS})
    table.to_csv(tmp_path / "labels.tsv", sep="\t", index=False)
    regions = np.array([1, 1, 2, 2, 2])
    options = {"labels_img": regions, "cv": 4, "standardize": False}
    expected = decode_regions(X, build.NAMES[CODES], confounds=NUMBERS, **options)
    y = (tmp_path / "labels.tsv", "word")
    for given in ("speed", ["speed"]):
        result = decode_regions(X, y, confounds=given, **options)
        assert_array_equal(result.predicted, expected.predicted)
        assert_allclose(result.lambdas, expected.lambdas, rtol=1e-10)
    with pytest.raises(ValueError, match=r"speeed"):
        decode_regions(X, y, confounds="speeed", **options)


def test_numbers_beside_texts_are_numbers():
    text = np.where(np.arange(N) % 3, "a", "b")
    mixed = [[float(number), name] for number, name in zip(NUMBERS, text, strict=True)]
    frame = pd.DataFrame({"number": NUMBERS, "text": text})
    columns = np.column_stack([NUMBERS, text == "b"]).astype(float)
    expected = cross_validate(X, CODES, cv=4, confounds=columns)
    for given in (
        mixed,
        frame,
        frame.set_index("number", drop=False),
        frame.to_numpy(),
    ):
        result = cross_validate(X, CODES, cv=4, confounds=given)
        assert result.parameters["n_confounds"] == 2
        assert_allclose(result.class_scores, expected.class_scores, rtol=1e-9)


@pytest.mark.parametrize("seed", [2**40, 2**127])
def test_steps_that_draw_take_any_seed(seed):
    step = PCA(2, svd_solver="randomized")
    one, two = (
        cross_validate(X, CODES, cv=4, preprocess=step, random_state=each)
        for each in (seed, seed % 2**32)
    )
    assert_array_equal(one.class_scores, two.class_scores)


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


def test_confounds_of_other_trials_are_not_known():
    trials, codes = build.trials((12, 12), 4, 2)
    others, other_codes = build.trials((5, 5), 4, 2, seed=1)
    with pytest.raises(
        ValueError, match=r"^confounds are known for the training trials"
    ):
        generalize_arrays(
            trials,
            codes,
            X_test=others,
            y_test=other_codes,
            same_trials=False,
            confounds=np.arange(24),
        )


# ----------------------------------------------------------------------- training sets


def test_averages_of_kernel_values_have_no_features_to_learn_from():
    data = X[:, :, np.newaxis]
    for options, given in (
        ({"preprocess": "zscore"}, "preprocess='zscore'"),
        ({"confounds": NUMBERS}, "confounds"),
    ):
        message = f"average=2 with a kernel that is not linear, .* where {given} has"
        with pytest.raises(ValueError, match=message):
            decode_arrays(data, CODES, cv=4, average=2, kernel="rbf", **options)


def test_steps_and_confounds_of_averages_are_those_of_averages():
    options = {"cv": 4, "average": 2, "random_state": 0}
    data = X[:, :, np.newaxis]
    result = decode_arrays(
        data, CODES, preprocess="zscore", confounds=NUMBERS, **options
    )
    members = result.members
    mean_of = [np.mean(np.take([*X, X[0]], m[m >= 0], axis=0), axis=0) for m in members]
    confounds = [NUMBERS[m[m >= 0]].mean() for m in members]
    alone = decode_arrays(
        np.array(mean_of)[:, :, np.newaxis],
        result.y,
        cv=result.folds,
        preprocess="zscore",
        confounds=confounds,
    )
    assert_array_equal(result.predicted, alone.predicted)
    assert_allclose(result.lambdas, alone.lambdas, rtol=1e-10)


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
@pytest.mark.parametrize("kernel", ["linear", "rbf", RBF(0.1), "polynomial"])
@pytest.mark.parametrize("steps", [None, "zscore", "pca", ["zscore", "pca"]], ids=str)
def test_flat_training_sets_are_refused(steps, kernel, p):
    with pytest.raises(ValueError, match=r"In fold 1 of the given cv iter.* differ"):
        cross_validate(
            flat(p),
            CODES,
            kernel=kernel,
            cv=[(ROWS[20:], ROWS[:20]), (ROWS[:19], ROWS[20:])],
            preprocess=steps,
        )


def test_permutations_in_order_need_no_more_than_the_order():
    result = cross_validate(
        X, CODES, cv=TimeSeriesSplit(3), n_permutations=20, random_state=0
    )
    assert result.parameters["permute"] == "free"
    assert_array_equal(result.trains[0], np.arange(10))


def test_comparisons_need_the_same_training_sets():
    options = {"n_permutations": 19, "random_state": 0, "permute": "free"}
    one, other = (
        cross_validate(X, CODES, cv=[(np.arange(n), ROWS[30:])], reg=reg, **options)
        for n, reg in ((20, 0.3), (21, 0.3))
    )
    with pytest.raises(ValueError, match=r"folds \(cv: "):
        compare(one, other)
    same = cross_validate(X, CODES, cv=one.folds, reg=3.0, **options)
    compare(one, same)


# -------------------------------------------------------------------------- checkpoints


class Stopped(Exception):
    """A run is stopped."""


@pytest.mark.parametrize(
    "reg", [0.3, Tuned([3.0, 0.3]), "auto"], ids=["fixed", "tuned", "auto"]
)
def test_an_interrupted_map_is_finished_where_it_stopped(reg, tmp_path, monkeypatch):
    monkeypatch.setattr(positions, "_LONGEST", 2)
    run_block, done = run._run_block, []

    def counting(source, task, block):
        if len(done) == limit:
            raise Stopped("after some blocks")
        done.append(tuple(block))
        return run_block(source, task, block)

    def compute(checkpoint=tmp_path / "run", **changes):
        options = {"preprocess": ["zscore", "pca"], "confounds": NUMBERS, "reg": reg}
        options |= {"cv": THINNED, "n_permutations": 9, "random_state": 0}
        options |= {"adjacency": np.eye(P, dtype=bool), "permute": "free"}
        return searchlight(X, CODES, checkpoint=checkpoint, **options | changes)

    limit = None
    expected = compute(checkpoint=None)
    monkeypatch.setattr(run, "_run_block", counting)
    limit = 1
    with pytest.raises(Stopped, match="after some blocks"):
        compute()
    limit = None
    assert compute() == expected
    assert len(done) == len(set(done)) == 3
    fewer = [(train[1:], test) for train, test in THINNED]
    for changes, message in (
        ({"preprocess": "zscore"}, "preprocess was .* and is"),
        ({"confounds": NUMBERS[::-1]}, "the data of confounds differ"),
        ({"confounds": None}, "n_confounds was 1 and is 0"),
        ({"cv": fewer}, "the data of cv's folds differ"),
    ):
        with pytest.raises(ValueError, match=f"checkpoint of another run.*{message}"):
            compute(**changes)
