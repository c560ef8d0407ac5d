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
from tests import reference
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
by_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=words)
by_size = pytest.mark.parametrize("p", [4, 45], ids=["n > p", "n < p"])


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

# --------------------------------------------------------------- kernels and classes


@pytest.mark.some(6)
@by_size
@by_kernel
def test_kernels(kernel, p):
    """Train and test at every time, fewer and more features than trials."""
    folds = make_folds(FIVE, CODES)
    assert_equals_oracle(Problem(CODES, make_data(CODES, p), None, folds, kernel))


@pytest.mark.some(11)
@both_routes
@pytest.mark.parametrize("p", [1, 3, 13, 14, 15, 28, 29, 30, 80])
def test_routes_of_the_linear_kernel(monkeypatch, p, features):
    """Weights and cross-kernels are one model, around every size that switches."""
    force_route(monkeypatch, features)
    folds = make_folds(ms.KFold(4), CODES)
    assert_equals_oracle(Problem(CODES, make_data(CODES, p), None, folds))


def test_the_cheaper_route_is_taken():
    folds = make_folds(FIVE, CODES)
    for p, n_permutations, features in [
        (4, 100, True),
        (45, 100, False),
        (28, 0, True),
    ]:
        problem = Problem(
            CODES, make_data(CODES, p), None, folds, n_permutations=n_permutations
        )
        positions = problem.positions()
        (model, *_) = positions.models(range(1), problem.task)
        assert model.chunks.n_columns == 1 + (p if features else N)
    problem.kernel = RBF()
    (model, *_) = problem.positions().models(range(1), problem.task)
    assert model.chunks.n_columns == 1 + N


@pytest.mark.some(10)
@by_size
@pytest.mark.parametrize("kernel", [Linear(), RBF()], ids=repr)
@pytest.mark.parametrize(
    "counts", [(12, 12), (17, 5), (5,) * 7, (14, 3, 4), (3, 4, 14)]
)
def test_classes(counts, kernel, p):
    """Two, three and seven classes, equally large and not."""
    codes = codes_of(counts)
    folds = make_folds(ms.KFold(4, shuffle=True, random_state=1), codes)
    assert_equals_oracle(Problem(codes, make_data(codes, p, 2), None, folds, kernel))


def test_more_classes_than_features():
    codes = codes_of((4,) * 14)
    folds = make_folds(ms.KFold(4), codes)
    problem = Problem(codes, make_data(codes, 3, 2), None, folds, n_permutations=3)
    assert_equals_oracle(problem)


def test_more_classes_than_a_byte_holds():
    codes = np.arange(260) % 130
    rng = np.random.default_rng(0)
    data = 3 * rng.standard_normal((2, 130, 40))[:, codes]
    data += rng.standard_normal(data.shape)
    folds = make_folds(ms.KFold(2), codes)
    problem = Problem(codes, data, None, folds, n_permutations=0)
    expected = assert_equals_oracle(problem, rtol=1e-7)
    assert expected.predictions.max() > 127


# ------------------------------------------------------------------------------ folds

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
SETTINGS = {
    "weights": (Linear(), True, 4),
    "weights, n < p": (Linear(), True, 45),
    "K": (Linear(), False, 4),
    "rbf": (RBF(), False, 4),
}
settings = pytest.mark.parametrize("setting", SETTINGS)


@pytest.mark.some(19)
@settings
@pytest.mark.filterwarnings("ignore:permute='free'")
@pytest.mark.parametrize("name", FOLDS)
def test_folds(monkeypatch, name, setting):
    """Partitions, equal and not, and test sets that overlap or miss trials."""
    kernel, features, p = SETTINGS[setting]
    force_route(monkeypatch, features)
    folds = make_folds(FOLDS[name], CODES)
    n_permutations = 2 if name == "LeaveOneOut" else 4
    data = make_data(CODES, p, 2)
    problem = Problem(
        CODES, data, None, folds, kernel, n_permutations=n_permutations, permute="free"
    )
    assert_equals_oracle(problem)


@pytest.mark.some(11)
@settings
@pytest.mark.parametrize("rare", [0, 1, 2])
@pytest.mark.parametrize("cv", [ms.KFold(2), ms.KFold(3)], ids=repr)
def test_a_class_absent_from_training(monkeypatch, cv, rare, setting):
    """Whichever class drops out of a training fold: its score is minus infinity."""
    kernel, features, p = SETTINGS[setting]
    force_route(monkeypatch, features)
    counts = [7, 6, 5]
    counts[rare] = 2
    codes = codes_of(counts, seed=1)
    problem = Problem(
        codes, make_data(codes, p, 2), None, make_folds(cv, codes), kernel
    )
    problem.n_permutations = 25
    expected = assert_equals_oracle(problem)
    absent = np.isneginf(expected.class_scores).any(axis=(0, 1, 2, 3))
    assert absent[rare]


@settings
@pytest.mark.parametrize("alone", [0, 1])
@pytest.mark.filterwarnings("ignore:All trials of class")
def test_one_class_in_training(monkeypatch, alone, setting):
    """A training fold of one class predicts that class."""
    kernel, features, p = SETTINGS[setting]
    force_route(monkeypatch, features)
    codes = np.where(np.isin(np.arange(10), [1, 6]), 1 - alone, alone)
    problem = Problem(
        codes, make_data(codes, p, 2), None, make_folds(ms.KFold(2), codes), kernel
    )
    problem.n_permutations = 30
    expected = assert_equals_oracle(problem)
    finite = np.isfinite(expected.class_scores).sum(axis=-1)
    assert finite.min() == 1


def test_two_of_four_classes_absent_from_training():
    codes = codes_of((2, 2, 6, 2), seed=3)
    folds = make_folds(ms.ShuffleSplit(6, test_size=0.5, random_state=0), codes)
    problem = Problem(codes, make_data(codes, 4, 2), None, folds, n_permutations=40)
    expected = assert_equals_oracle(problem)
    finite = np.isfinite(expected.class_scores).sum(axis=-1)
    assert set(np.unique(finite)) >= {2, 3, 4}


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


# -------------------------------------------------------------------------- other data


@by_size
@by_kernel
def test_other_trials(kernel, p):
    """Train on all, test on all of another set; labels of the tests stay."""
    true = codes_of((5, 3, 6), seed=8)
    data_test = make_data(true, p, 4, seed=3) * 1.5 + 0.5
    problem = Problem(CODES, make_data(CODES, p), data_test, None, kernel, true=true)
    assert_equals_oracle(problem)


@both_routes
@pytest.mark.parametrize("counts", [(1, 0, 0), (0, 4, 3), (60, 2, 50)])
def test_other_trials_of_any_number(monkeypatch, counts, features):
    force_route(monkeypatch, features)
    true = codes_of(counts, seed=8)
    data_test = make_data(np.append(true, 2), 5, 2, seed=3)[:, :-1]
    assert_equals_oracle(Problem(CODES, make_data(CODES, 5), data_test, true=true))


@pytest.mark.some(6)
@by_size
@by_kernel
def test_the_same_trials_in_other_epochs(kernel, p):
    """Same folds, other data and another number of times."""
    data_test = make_data(CODES, p, 5, seed=4)
    folds = make_folds(FIVE, CODES)
    assert_equals_oracle(
        Problem(CODES, make_data(CODES, p, 2), data_test, folds, kernel)
    )


@pytest.mark.parametrize("name", ["KFold, unequal", "ShuffleSplit", "LeaveOneOut"])
def test_another_labelling(name):
    """Trained on one labelling, which alone is permuted, and scored on another."""
    true = codes_of((15, 9, 5), seed=9)
    folds = make_folds(FOLDS[name], CODES)
    problem = Problem(CODES, make_data(CODES, 5, 2), None, folds, true=true)
    assert_equals_oracle(problem)


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
@pytest.mark.parametrize("others", [False, True])
def test_single_precision(monkeypatch, others, setting):
    """Scores to 1e-4 of the largest, and predictions but for near ties."""
    kernel, features, p = SETTINGS[setting]
    force_route(monkeypatch, features)
    codes = codes_of((60, 60, 60))
    true = codes_of((40, 30, 20)) if others else None
    problem = Problem(codes, make_data(codes, p), None, None, kernel, true=true)
    if others:
        problem.data_test = make_data(true, p, 2, seed=1)
    else:
        problem.folds = make_folds(10, codes)
        problem.permute = "within_folds"
    expected_predictions, expected, _, _ = problem.ours()
    problem.dtype = "float32"
    predictions, scores, _, _ = problem.ours()
    assert scores.dtype == np.float32
    largest = np.abs(expected).max()
    assert_allclose(scores, expected, rtol=0, atol=1e-4 * largest)
    assert not np.array_equal(scores, expected)
    ordered = np.sort(expected, axis=-1)
    clear = ordered[..., -1] - ordered[..., -2] > 2e-4 * largest
    assert clear.mean() > 0.97
    assert_array_equal(predictions[clear], expected_predictions[clear])


@settings
def test_a_common_offset_costs_no_digits(monkeypatch, setting):
    """Channels far from zero, all alike or each in its own way."""
    kernel, features, p = SETTINGS[setting]
    force_route(monkeypatch, features)
    folds = make_folds(FIVE, CODES)
    for offset in (1e5, 1e4 * np.random.default_rng(0).standard_normal(p)):
        problem = Problem(
            CODES, make_data(CODES, p), None, folds, kernel, offset=offset
        )
        assert_equals_oracle(problem, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("unit", [1e-13, 1e-6, 1e6])
@both_routes
def test_units(monkeypatch, features, unit):
    """Tesla, volts and large numbers: no threshold is hidden anywhere."""
    force_route(monkeypatch, features)
    folds = make_folds(FIVE, CODES)
    assert_equals_oracle(Problem(CODES, unit * make_data(CODES, 5), None, folds))


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


@pytest.mark.parametrize("n_classes", [2, 3, 12])
@pytest.mark.parametrize("steps", [(), (StandardScaler(),)], ids=["", "steps"])
def test_the_block_of_labels_fits_its_memory(steps, n_classes, monkeypatch):
    """Coefficients, or predictions of folds one by one, stay below their limit."""
    monkeypatch.setattr(transfer, "_MEMORY_BYTES", 2**20)
    codes = np.arange(240) % n_classes
    data, sizes = make_data(codes, 20, 2), []
    for cv in (ms.LeaveOneOut(), ms.KFold(5)):
        problem = Problem(codes, data, None, make_folds(cv, codes), n_permutations=1)
        task = replace(problem.task, learned=FoldPreprocessing(steps))
        (model, *_) = problem.positions().models(range(1), task)
        for want_scores in (False, True):
            if steps:
                bytes_each = 240 * 2 * (8 * n_classes if want_scores else 1)
            else:
                bytes_each = 8 * (n_classes - 1) * 21 * len(problem.folds.tests)
            size = model.block_size(n_classes, want_scores)
            assert 1 <= size <= 512
            assert size == 1 or size * bytes_each <= transfer._MEMORY_BYTES
            sizes.append(size)
    assert min(sizes) < 512
