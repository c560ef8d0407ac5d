"""Fold models applied to other data equal models that are trained anew.

Every test hands the same folds, penalties and labellings to the transfer and to the
oracle of ``reference.py``. Gram matrices of the oracle come from scikit-learn's
pairwise functions. Scores are compared for every cell of the map, fold, test trial,
class and labelling.
"""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import pdist
from sklearn import model_selection as ms
from sklearn.metrics.pairwise import (
    laplacian_kernel,
    linear_kernel,
    polynomial_kernel,
    rbf_kernel,
)
from sklearn.preprocessing import StandardScaler

from mvpa_kfda import RBF, Linear, Polynomial, Ridge
from mvpa_kfda.decoding.positions import (
    GeneralizationPositions,
    WindowPositions,
    cut_windows,
)
from mvpa_kfda.decoding.run import Task, run
from mvpa_kfda.inference.permutation import permute_labels
from mvpa_kfda.kfda import transfer
from mvpa_kfda.kfda.folds import Folds, make_folds
from mvpa_kfda.kfda.kernels import Callable
from mvpa_kfda.kfda.preprocess import FoldPreprocessing
from mvpa_kfda.metrics.scores import METRICS
from tests import build, reference
from tests.build import codes_of, words

SEED = 5


def median_width(X):
    """Gaussian kernel as wide as the training trials are apart."""
    return partial(rbf_kernel, gamma=1 / np.median(pdist(X, "sqeuclidean")))


#: Kernel -> the function that makes the oracle's kernel from the training trials.
KERNELS = {
    Linear(): lambda X: linear_kernel,
    RBF(): median_width,
    RBF(gamma=0.05): lambda X: partial(rbf_kernel, gamma=0.05),
    Polynomial(): lambda X: partial(polynomial_kernel, degree=3),
    Polynomial(2, gamma=0.1, coef0=3.0): lambda X: partial(
        polynomial_kernel, degree=2, gamma=0.1, coef0=3.0
    ),
    Callable(laplacian_kernel): lambda X: laplacian_kernel,
}


def make_data(codes, p, n_times=3, seed=0):
    """Samples first, (n_times, n, p); classes differ, in other ways at other times."""
    rng = np.random.default_rng(seed)
    means = 0.7 * rng.standard_normal((n_times, codes.max() + 1, p))
    means += means.mean(axis=0)
    offsets = 0.5 * rng.standard_normal((n_times, 1, p))
    noise = rng.standard_normal((n_times, len(codes), p))
    return 1.0 + offsets + means[:, codes] + noise


CODES = codes_of((9, 12, 8))
N = len(CODES)


@dataclass
class Problem:
    """What both sides are asked."""

    codes: np.ndarray
    data: np.ndarray
    data_test: np.ndarray | None = None
    folds: Folds | None = None
    kernel: object = Linear()
    reg: object = 0.3
    n_permutations: int = 6
    permute: str = "free"
    width: int = 1
    step: int = 1
    mode: str = "mean"
    true: np.ndarray | None = None
    dtype: str = "float64"
    offset: object = 0.0

    @property
    def labels(self):
        return permute_labels(
            self.codes,
            self.n_permutations,
            folds=self.folds,
            permute=self.permute,
            random_state=SEED,
        ).labels

    @property
    def task(self):
        n_classes = int(self.codes.max()) + 1
        dtype = np.dtype(self.dtype)
        metrics = {"accuracy": METRICS["accuracy"]}
        return Task(self.labels, n_classes, self.folds, metrics, dtype)

    def positions(self):
        """Return the positions; the offset is what a shift-free kernel cannot see."""
        train = test = self._row(self.data)
        if self.data_test is not None:
            test = self._row(self.data_test)
        trained = train.data, train.windows, train.kernel, train.reg
        return GeneralizationPositions(*trained, test=test, test_labels=self.true)

    def _row(self, data):
        cut = 1.0, self.width, self.step, self.mode
        windows = cut_windows(np.arange(len(data)), *cut)
        return WindowPositions(data + self.offset, windows, self.kernel, self.reg)

    def features(self, data):
        """Return the windows' features, put together sample by sample."""
        pieces = [
            data[start : start + self.width]
            for start in range(0, len(data) - self.width + 1, self.step)
        ]
        if self.mode == "mean":
            return [sum(piece) / len(piece) for piece in pieces]
        return [np.hstack(list(piece)) for piece in pieces]

    def oracle(self):
        """Return the oracle's run, folds in the order that the transfer takes them."""
        train = self.features(self.data)
        test = train if self.data_test is None else self.features(self.data_test)
        K, K_cross, lam = [], [], []
        for X in train:
            gram = KERNELS[self.kernel](X)
            K.append(gram(X, X))
            K_cross.append([gram(Z, X) for Z in test])
            J = np.eye(len(X)) - 1 / len(X)
            relative = np.trace(J @ K[-1] @ J) / len(X)
            fixed = isinstance(self.reg, Ridge)
            lam.append(self.reg.lam if fixed else self.reg * relative)
        if self.folds is None:
            return reference.reference_transfer(
                K, K_cross, self.codes, lam, self.labels
            )
        folds = sorted(self.folds.pairs, key=lambda pair: len(pair[1]))
        return reference.reference_generalize(
            K, K_cross, self.codes, folds, lam, self.labels
        )

    def ours(self):
        """Return predictions (P, T, U, m), scores (P, T, U, m, c), rows and truth."""
        positions, task = self.positions(), self.task
        predictions, scores = [], []
        for block in positions.blocks():
            for model in positions.models(block, task):
                pieces = list(model.predict(task.labels, task.n_classes, True))
                predictions.append(np.concatenate([s.predicted for s in pieces], 1))
                scores.append(np.concatenate([s.class_scores for s in pieces], 2))
        predictions = np.stack(predictions).transpose(3, 0, 2, 1)
        scores = np.stack(scores).transpose(4, 0, 3, 1, 2)
        return predictions, scores, model.rows, pieces[0].true


def relative(scores, present):
    """Return scores (..., c) less that of the first class that is in training."""
    first = present.argmax(axis=-1)[..., None]
    return scores - np.take_along_axis(scores, first, axis=-1)


def assert_equals_oracle(problem, rtol=1e-8, atol=1e-9):
    """Compare everything; `atol` is relative to the largest score."""
    expected = problem.oracle()
    predictions, scores, rows, true = problem.ours()
    assert_array_equal(rows, expected.rows)
    assert predictions.shape == expected.predictions.shape
    present = np.isfinite(expected.class_scores)
    assert_array_equal(np.isneginf(scores), ~present)
    wanted = relative(expected.class_scores, present)[present]
    largest = np.abs(wanted).max()
    assert_allclose(
        relative(scores, present)[present], wanted, rtol=rtol, atol=atol * largest
    )
    assert_array_equal(predictions, expected.predictions)
    truth = problem.labels if problem.true is None else problem.true[None]
    assert_array_equal(true[:, 0].T, truth[:, rows])
    # And the run loop counts the hits of the same predictions.
    outcome = run(problem.positions(), problem.task, 1, False)
    accuracy = expected.accuracy(truth)
    assert_allclose(outcome.metrics["accuracy"], accuracy[0], rtol=1e-12, atol=0)
    if len(accuracy) > 1:
        null = outcome.nulls["accuracy"]
        assert_allclose(null, accuracy[1:], rtol=1e-12, atol=0)
    return expected


def force_route(monkeypatch, features):
    """Take weights on features, or kernels between times, whatever is cheaper."""
    monkeypatch.setattr(GeneralizationPositions, "_uses_features", lambda *_: features)


both_routes = pytest.mark.parametrize("features", [True, False], ids=["weights", "K"])
FIVE = ms.KFold(5, shuffle=True, random_state=0)  # test sets of 6, 6, 6, 6 and 5


# ------------------------------------------------------- kernels, classes, folds, tests


ROWS = np.arange(N)
FOLDS = {
    "KFold, unequal": ms.KFold(4),
    "two halves": ms.KFold(2, shuffle=True, random_state=1),
    "StratifiedKFold": ms.StratifiedKFold(5, shuffle=True, random_state=1),
    "LeaveOneOut": ms.LeaveOneOut(),
    "RepeatedKFold": ms.RepeatedKFold(n_splits=3, n_repeats=2, random_state=1),
    "ShuffleSplit": ms.ShuffleSplit(4, test_size=0.25, random_state=1),
    "PredefinedSplit, misses rows": ms.PredefinedSplit(ROWS % 4 - 1),
    "hold-out, in reverse": [(np.arange(20), np.arange(N - 1, 19, -1))],
    "one row": [(np.arange(1, N), np.array([0]))],
    "sizes 9, 1, 5, overlapping": [
        (np.setdiff1d(ROWS, test), test)
        for test in (np.arange(9), np.array([4]), np.array([20, 3, 11, 2, 28]))
    ],
}


#: What is tested: the training trials at all times, the same trials in other epochs,
#: by another labelling, or other trials, for which there are no folds.
TESTED = ["times", "epochs", "labels", "others"]
#: Features, around every number at which the route of the linear kernel changes.
P = [1, 3, 4, 13, 14, 15, 28, 29, 30, 45, 80]
COUNTS = [(9, 12, 8), (18, 11), (6, 5, 6, 6, 6), (19, 5, 5), (5, 5, 19)]
LINEAR = [Linear()] * 5  # by either route
DRAWN = build.spread(
    60, [*KERNELS, *LINEAR], P, COUNTS, FOLDS, TESTED, [True, False], seed=2
)


@pytest.mark.some(42)
@pytest.mark.filterwarnings("ignore:permute='free'")
@pytest.mark.parametrize(
    ("kernel", "p", "counts", "name", "tested", "features"),
    DRAWN,
    ids=["-".join(map(words, row)) for row in DRAWN],
)
def test_any_models_are_applied_to_any_trials(
    kernel, p, counts, name, tested, features, monkeypatch
):
    if kernel == Linear():
        force_route(monkeypatch, features)
    codes, n_permutations = codes_of(counts), 2 if name == "LeaveOneOut" else 4
    data, true, data_test = make_data(codes, p, 2), None, None
    folds = None if tested == "others" else make_folds(FOLDS[name], codes)
    if tested == "epochs":
        data_test = make_data(codes, p, 3, seed=4)
    elif tested == "labels":
        true = np.random.default_rng(0).permutation(codes)
    elif tested == "others":
        true = codes_of([max(1, count // 2) for count in counts], seed=8)
        data_test = make_data(true, p, 3, seed=3) * 1.5 + 0.5
    given = codes, data, data_test, folds, kernel
    assert_equals_oracle(Problem(*given, n_permutations=n_permutations, true=true))


def test_more_classes_than_a_byte_holds():
    codes = np.arange(260) % 130
    rng = np.random.default_rng(0)
    data = 3 * rng.standard_normal((1, 130, 40))[:, codes]
    data += rng.standard_normal(data.shape)
    folds = make_folds(ms.KFold(2), codes)
    problem = Problem(codes, data, None, folds, n_permutations=0)
    expected = assert_equals_oracle(problem, rtol=1e-7)
    assert expected.predictions.max() > 127


SETTINGS = {
    "weights": (Linear(), True, 4),
    "weights, n < p": (Linear(), True, 45),
    "K": (Linear(), False, 4),
    "rbf": (RBF(), False, 4),
}


settings = pytest.mark.parametrize("setting", SETTINGS)


#: Class codes, and folds that train without some of the classes.
ABSENT = {
    **{
        f"{rare} of three": (codes_of(counts, 1), ms.KFold(2))
        for rare, counts in enumerate([(2, 6, 5), (7, 2, 5), (7, 6, 2)])
    },
    "two of four": (codes_of((2, 2, 6, 2), 3), ms.ShuffleSplit(6, test_size=0.5)),
    "all but the first": (np.isin(np.arange(10), [1, 6]) + 0, ms.KFold(2)),
    "all but the last": ((~np.isin(np.arange(10), [1, 6])) + 0, ms.KFold(2)),
}


@pytest.mark.parametrize(("name", "setting"), build.by_turns(ABSENT, SETTINGS))
@pytest.mark.filterwarnings("ignore:All trials of class")
def test_classes_absent_from_training(monkeypatch, name, setting):
    """Their score is minus infinity; one class alone is predicted."""
    kernel, features, p = SETTINGS[setting]
    force_route(monkeypatch, features)
    codes, cv = ABSENT[name]
    folds = make_folds(list(cv.split(codes)), codes)
    data = make_data(codes, p, 2)
    problem = Problem(codes, data, None, folds, kernel, n_permutations=12)
    present = np.isfinite(assert_equals_oracle(problem).class_scores)
    n_present = present.sum(axis=-1)
    assert n_present.max() > n_present.min()
    assert n_present.min() == 1 or "all but" not in name
    if "of three" in name:
        assert not present[..., int(name[0])].all()


def test_trials_in_several_test_sets_have_one_prediction():
    """It is the class with the largest mean score, whatever folds know of classes."""
    codes = codes_of((2, 8, 8), seed=2)
    folds = make_folds(ms.ShuffleSplit(8, test_size=0.4, random_state=0), codes)
    problem = Problem(codes, make_data(codes, 4), None, folds, n_permutations=0)
    expected = problem.oracle()
    outcome = run(problem.positions(), problem.task, 1, False)
    scores = expected.class_scores[0]
    absent = np.isneginf(scores[0, 0, :, 0])
    assert 0 < absent.sum() < len(absent)
    for trial in range(len(codes)):
        instances = scores[:, :, expected.rows == trial]
        if instances.size == 0:
            assert_array_equal(outcome.predicted[:, :, trial], -1)
            continue
        mean = instances.mean(axis=2)
        assert_array_equal(outcome.predicted[:, :, trial], mean.argmax(axis=-1))


@both_routes
@pytest.mark.parametrize("counts", [(1, 0, 0), (0, 4, 3), (60, 2, 50)])
def test_other_trials_of_any_number(monkeypatch, counts, features):
    force_route(monkeypatch, features)
    true = codes_of(counts, seed=8)
    data_test = make_data(np.append(true, 2), 5, 2, seed=3)[:, :-1]
    assert_equals_oracle(Problem(CODES, make_data(CODES, 5), data_test, true=true))


@pytest.mark.some(6)
@pytest.mark.parametrize("kernel", [Linear(), RBF(), Polynomial()], ids=repr)
@pytest.mark.parametrize("mode", ["mean", "concatenate"])
@pytest.mark.parametrize(("width", "step"), [(2, 1), (5, 1), (3, 2)])
def test_windows(width, step, mode, kernel):
    folds = make_folds(ms.KFold(3), CODES)
    problem = Problem(
        CODES,
        make_data(CODES, 4, 8)[: width + 2 * step],
        make_data(CODES, 4, 9, seed=4)[: width + 3 * step],
        folds,
        kernel,
        width=width,
        step=step,
        mode=mode,
        n_permutations=3,
    )
    expected = assert_equals_oracle(problem)
    assert expected.predictions.shape[1:3] == (3, 4)


# --------------------------------------------------------------------------- precision


@settings
def test_offsets_and_units_cost_no_digits(monkeypatch, setting):
    """Channels far from zero, tesla, volts: no threshold is hidden anywhere."""
    kernel, features, p = SETTINGS[setting]
    force_route(monkeypatch, features)
    given = CODES, make_data(CODES, p), None, make_folds(FIVE, CODES), kernel
    offset = 1e5 + 1e4 * np.random.default_rng(0).standard_normal(p)
    assert_equals_oracle(Problem(*given, offset=offset), rtol=1e-6, atol=1e-7)
    for unit in (1e-13, 1e6):
        problem = Problem(*given)
        problem.data = unit * problem.data
        assert_equals_oracle(problem)


# ---------------------------------------------------------- how the work is cut up


CUTS = {
    "one time per chunk": (transfer, "_CHUNK_VALUES", 1),
    "two times per chunk": (transfer, "_CHUNK_VALUES", 2 * N * 5),
    "one row per product": (transfer, ("_ROWS", "_CACHE_BYTES"), (1, 1)),
    "four rows per product": (transfer, ("_ROWS", "_CACHE_BYTES"), (4, 1)),
    "two folds per product": (transfer, "_CACHE_BYTES", 2**16),
    "all in one product": (transfer, "_CACHE_BYTES", 2**40),
    "one label vector per block": (transfer, "_MEMORY_BYTES", 1),
    "no chunk is kept": (transfer.Chunks, "MOST", 0),
    "one chunk is kept": (transfer.Chunks, "MOST", 3000),
}


@pytest.mark.some(9)
@pytest.mark.parametrize("setting", ["weights", "rbf"])
@pytest.mark.parametrize("cut", CUTS)
def test_outcome_does_not_depend_on_cuts(monkeypatch, cut, setting):
    kernel, features, p = SETTINGS[setting]
    force_route(monkeypatch, features)
    folds = make_folds(FIVE, CODES)
    problem = Problem(CODES, make_data(CODES, p, 5), None, folds, kernel)
    problem.n_permutations = 70  # more than one block
    expected, task = problem.ours(), problem.task
    outcome = run(problem.positions(), task, 1, False)
    if "chunk is kept" in cut:  # there have to be several
        monkeypatch.setattr(transfer, "_CHUNK_VALUES", 1)
    where, names, values = CUTS[cut]
    for name, value in zip(np.atleast_1d(names), np.atleast_1d(values), strict=True):
        monkeypatch.setattr(where, name, value)
    predictions, scores, _, _ = problem.ours()
    assert_array_equal(predictions, expected[0])
    assert_allclose(scores, expected[1], rtol=0, atol=1e-12 * np.abs(scores).max())
    other = run(problem.positions(), task, 1, False)
    assert_array_equal(other.predicted, outcome.predicted)
    assert_array_equal(other.nulls["accuracy"], outcome.nulls["accuracy"])


@pytest.mark.parametrize("n_classes", [2, 12])
@pytest.mark.parametrize("steps", [(), (StandardScaler(),)], ids=["", "steps"])
def test_the_block_of_labels_fits_its_memory(steps, n_classes, monkeypatch):
    """Coefficients, or predictions of folds one by one, stay below their limit."""
    monkeypatch.setattr(transfer, "_MEMORY_BYTES", 2**20)
    codes = np.arange(240) % n_classes
    data, folds = make_data(codes, 20, 2), make_folds(ms.KFold(5), codes)
    problem = Problem(codes, data, None, folds, n_permutations=1)
    task = replace(problem.task, learned=FoldPreprocessing(steps))
    (model, *_) = problem.positions().models(range(1), task)
    for want_scores in (False, True):
        bytes_each = 8 * (n_classes - 1) * 21 * 5
        if steps:
            bytes_each = 240 * 2 * (8 * n_classes if want_scores else 1)
        size = model.block_size(n_classes, want_scores)
        assert 1 <= size <= 512
        assert size == 1 or size * bytes_each <= 2**20
