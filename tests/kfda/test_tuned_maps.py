"""Tuned penalties over time, from time to time, and over sensors and voxels.

Maps over positions equal `cross_validate` on each position's features, whose tuning is
compared to retrained models in ``test_tuning.py``. Maps from time to time are made of
maps with fixed penalties, which ``test_transfer.py`` compares to retrained models.
"""

from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics.pairwise import linear_kernel, rbf_kernel
from sklearn.model_selection import KFold, LeaveOneOut, ShuffleSplit

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
    decode_arrays,
    decode_epochs,
    decode_regions,
    generalize_arrays,
    generalize_epochs,
    searchlight,
)
from mvpa_kfda.kfda.direct import prepare
from mvpa_kfda.kfda.folds import Folds
from mvpa_kfda.kfda.hat import make_hat
from mvpa_kfda.kfda.patterns import class_patterns
from tests import build, reference

N, SEED = 26, 3
CODES = np.random.default_rng(0).permutation(np.repeat([0, 1, 2], [8, 11, 7]))
#: Small enough that neighbouring folds and times choose differently.
GRID = [Ridge(lam) for lam in (300.0, 40.0, 5.0, 0.7)]
CV = KFold(3, shuffle=True, random_state=0)
CHAIN = np.eye(4, k=1) + np.eye(4, k=-1)


def make_data(p, n_times=3, seed=0, codes=CODES):
    """Return (n, p, n_times); classes differ, in other ways at other times."""
    rng = np.random.default_rng(seed)
    means = 0.6 * rng.standard_normal((3, p, n_times))
    means += means.mean(axis=2, keepdims=True)
    noise = rng.standard_normal((len(codes), p, n_times))
    return 2.0 + means[codes] + noise * np.geomspace(2, 0.5, p)[:, None]


def assert_same_position(result, position, expected):
    """Compare a position of a map to `cross_validate` on its features."""
    assert result.scores[position] == expected.scores
    assert_array_equal(result.predicted[position], expected.predicted)
    null = result.null[:, position]
    assert_allclose(null, expected.null, rtol=0, atol=1e-6)  # may be single precision
    for name, values in expected.penalty.items():
        got = result.penalty[name][position]
        if name == "kernel":
            assert_array_equal(got, values)
        else:
            assert_allclose(got, values, rtol=1e-8, atol=1e-10)


# Time by time


@pytest.mark.parametrize("p", [4, 30])
def test_every_time_is_cross_validated_by_itself(p):
    X = make_data(p, 5)
    options = {"reg": Tuned(GRID), "cv": CV, "n_permutations": 5}
    options["random_state"] = SEED
    result = decode_arrays(X, CODES, **options)
    assert result.lambdas.shape == (5, 3)
    assert result.penalty["criterion"].shape == (5, 3, 1, 4)
    assert len(np.unique(result.lambdas)) > 1
    for t in range(5):
        expected = cross_validate(X[:, :, t], CODES, **options)
        assert_same_position(result, t, expected)


@pytest.mark.parametrize(
    ("kernel", "p"),
    [
        ("linear", 4),
        ("linear", 20),
        ("rbf", 4),
        ([RBF(0.01), RBF(0.05), "rbf"], 4),
        (["linear", Polynomial(2), RBF(0.02)], 20),
        (GraphSmooth(CHAIN), 4),
        ([GraphSmooth(CHAIN), "linear"], 4),
    ],
    ids=str,
)
def test_windows_of_samples_side_by_side(kernel, p):
    # Windows with samples in common are made of sums of kernels.
    X = make_data(p, 6)
    options = {"reg": Tuned(GRID), "cv": CV, "n_permutations": 3}
    options["random_state"] = SEED
    cut = {"window": 3, "window_mode": "concatenate"}
    result = decode_arrays(X, CODES, kernel=kernel, **cut, **options)
    kernels = [
        k.repeated(3) if isinstance(k, GraphSmooth) else k for k in aslist(kernel)
    ]
    kernel = kernels if isinstance(kernel, list) else kernels[0]
    for t in range(4):
        features = np.concatenate([X[:, :, t + i] for i in range(3)], axis=1)
        expected = cross_validate(features, CODES, kernel=kernel, **options)
        assert_same_position(result, t, expected)


def aslist(kernel):
    return kernel if isinstance(kernel, list) else [kernel]


def test_where_no_penalty_can_be_used():
    with pytest.raises(ValueError, match=r"^At 0\.000 s: No lambda of the grid"):
        decode_arrays(make_data(40), CODES, reg=Tuned([1e-14]), cv=CV)


# Epochs


@pytest.fixture(scope="module")
def epochs():
    made = build.epochs(make_data(4, 4), CODES, units={}, sfreq=10.0)
    return made.set_eeg_reference([], verbose=False)


def forward_pattern(K, signal, codes, lam, train):
    """Class patterns (3, p) of a model of some trials: Haufe et al., by the book."""
    model = reference.fit(K[np.ix_(train, train)], codes[train], lam, 3)
    s, x = model.transform(K[np.ix_(train, train)]), signal[train]
    s, centred = s - s.mean(axis=0), x - x.mean(axis=0)
    A = np.linalg.solve(s.T @ s, s.T @ centred)
    means = np.array([s[codes[train] == k].mean(axis=0) for k in range(3)])
    return means @ A


@pytest.mark.parametrize("cv", [CV, ShuffleSplit(4, test_size=5, random_state=0)])
def test_epochs_and_their_patterns(epochs, cv):
    tuned = Tuned(GRID)
    names = np.array(["a", "b", "c"])[CODES]
    result = decode_epochs(epochs, names, reg=tuned, cv=cv)
    X = epochs.get_data(copy=True)
    expected = decode_arrays(X, names, sfreq=10.0, reg=tuned, cv=cv)
    assert_allclose(result.lambdas, expected.lambdas, rtol=1e-12, atol=0)
    assert_array_equal(result.predicted, expected.predicted)
    differ = 0
    for t in range(4):
        signal = X[:, :, t]
        K = linear_kernel(signal)
        folds = [
            forward_pattern(K, signal, CODES, lam, train)
            for lam, (train, _) in zip(result.lambdas[t], result.folds, strict=True)
        ]
        differ += len(np.unique(result.lambdas[t])) > 1
        rows, splits = np.arange(N), list(LeaveOneOut().split(CODES))
        lambdas = [[r.lam for r in GRID]]
        _, lam, _ = reference.choose([K], lambdas, CODES, rows, splits, 3)
        maps = {kind: values[t] for kind, values in result.pattern_maps.items()}
        whole = forward_pattern(K, signal, CODES, lam, rows)
        assert_allclose(maps["class"], whole, rtol=0, atol=1e-9)
        assert_allclose(maps["class_folds"], np.mean(folds, axis=0), rtol=0, atol=1e-9)
        plan = prepare(make_hat(signal, Linear(), Ridge(lam)), None)
        discriminant = class_patterns(plan, CODES, 3, signal)["discriminant"]
        assert_allclose(maps["discriminant"], discriminant, rtol=0, atol=1e-9)
    assert differ  # else one penalty would do for all folds


def test_patterns_of_folds_are_those_of_plain_plans(epochs):
    # Fold by fold, by a plan of its own with the penalty that the fold has chosen.
    X = epochs.get_data(copy=True)[:, :, 1]
    tuned = Tuned([Ridge(lam) for lam in np.geomspace(20, 1, 15)])
    result = decode_epochs(epochs, CODES, reg=tuned, cv=LeaveOneOut())
    folds = []
    for lam, (_, test) in zip(result.lambdas[1], result.folds, strict=True):
        plan = prepare(make_hat(X, Linear(), Ridge(lam)), Folds((test,), N))
        folds.append(class_patterns(plan, CODES, 3, X)["class_folds"])
    assert len(np.unique(result.lambdas[1])) > 1
    got = result.pattern_maps["class_folds"][1]
    assert_allclose(got, np.mean(folds, axis=0), rtol=0, atol=1e-10)


def test_sensors_by_their_neighbours(epochs):
    neighbours = (CHAIN > 0) | np.eye(4, dtype=bool)
    kernel = GraphSmooth((CHAIN, epochs.ch_names))
    for kernel in (kernel, ["linear", RBF(0.05)], "rbf"):  # noqa: B020
        options = {"kernel": kernel, "reg": Tuned(GRID), "cv": CV}
        result = decode_epochs(epochs, CODES, sensors=neighbours, **options)
        for s, t in np.ndindex(4, 4):
            columns = np.flatnonzero(neighbours[s])
            X = epochs.get_data(copy=True)[:, columns, t]
            if isinstance(kernel, GraphSmooth):
                options["kernel"] = GraphSmooth(CHAIN[np.ix_(columns, columns)])
            expected = cross_validate(X, CODES, **options)
            assert_array_equal(result.predicted[s, t], expected.predicted)
            assert_allclose(result.lambdas[s, t], expected.lambdas, rtol=1e-9, atol=0)


# From time to time


#: Penalties relative to each kernel.
SHARES = [3.0, 0.3, 0.03, 0.003]
#: What is chosen from, and an approximation.
CHOICES = {
    "linear": ("linear", None),
    "rbf": ("rbf", None),
    "list": (["linear", RBF(0.02), "rbf"], None),
    "list, not free of shifts": ([Polynomial(2, gamma=0.05), "linear"], None),
    "landmarks": (RBF(0.05), Nystrom(9, "uniform")),
    "all landmarks, list": (["linear", RBF(0.02)], Nystrom(N)),
}


def assert_made_of_plain_maps(choice, X, *others, **options):
    """Assert that each fold has the predictions of the model that it has chosen."""
    kernel, options["approx"] = CHOICES[choice]
    tuned, chosen = Tuned(SHARES), set()
    result = generalize_arrays(X, CODES, *others, kernel=kernel, reg=tuned, **options)
    plain = [
        [
            generalize_arrays(X, CODES, *others, kernel=k, reg=r, **options)
            for r in SHARES
        ]
        for k in aslist(kernel)
    ]
    for t, (fold, (_, test)) in product(range(X.shape[2]), enumerate(result.folds)):
        maps, lam = plain[result.penalty["kernel"][t, fold]], result.lambdas[t, fold]
        (index,) = np.flatnonzero(
            [np.isclose(m.lambdas[t], lam, 1e-9, 0) for m in maps]
        )
        predicted = result.predicted[t][:, test]
        assert_array_equal(predicted, maps[index].predicted[t][:, test])
        chosen.add(index)
    # Else one penalty would do for all; where all fit well, one does.
    assert len(chosen) > 1 or X.shape[1] > N or others
    return result, {"kernel": kernel, "reg": tuned} | options


@pytest.mark.some(6)
@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("p", [4, 30])
@pytest.mark.parametrize("cv", [CV, KFold(4, shuffle=True, random_state=0)], ids=repr)
def test_maps_are_made_of_plain_maps(choice, p, cv):
    X = make_data(p)
    result, options = assert_made_of_plain_maps(choice, X, cv=cv)
    for t in range(3):
        alone = cross_validate(X[:, :, t], CODES, **options)
        assert_allclose(result.lambdas[t], alone.lambdas, rtol=1e-12, atol=0)
        assert_array_equal(result.predicted[t, t], alone.predicted)


@pytest.mark.parametrize("rank", [None, 1])
def test_maps_of_reduced_rank_and_overlapping_folds(rank):
    X, options = make_data(4, 2), {"n_components": rank}
    assert_made_of_plain_maps("linear", X, cv=CV, **options)
    options |= {"reg": Tuned(GRID), "n_permutations": 3, "random_state": 0}
    options["cv"] = ShuffleSplit(3, test_size=6, random_state=1)
    result, expected = (
        f(X, CODES, **options) for f in (generalize_arrays, decode_arrays)
    )
    assert_array_equal(np.diagonal(result.predicted).T, expected.predicted)
    null = np.diagonal(result.null, axis1=1, axis2=2)
    assert_allclose(null, expected.null, rtol=0, atol=1e-6)


@pytest.mark.some(6)
@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("p", [4, 30])
def test_maps_of_other_trials_are_made_of_plain_maps(choice, p):
    X, y_test = make_data(p), np.arange(15) % 3
    X_test = make_data(p, 2, seed=0, codes=y_test)
    result, options = assert_made_of_plain_maps(choice, X, X_test, y_test=y_test)
    del options["y_test"]
    for t in range(3):
        model = KernelFDA(**options).fit(X[:, :, t], CODES)
        assert result.lambdas[t] == pytest.approx(model.lambda_, rel=1e-12)


def test_generalization_of_epochs(epochs):
    tuned = Tuned(GRID)
    result = generalize_epochs(epochs, CODES, reg=tuned, cv=CV)
    X = epochs.get_data(copy=True)
    expected = generalize_arrays(X, CODES, sfreq=10.0, reg=tuned, cv=CV)
    assert_array_equal(result.predicted, expected.predicted)
    assert_array_equal(result.lambdas, expected.lambdas)
    plain = decode_epochs(epochs, CODES, reg=tuned, cv=CV)
    assert_array_equal(np.diag(result.scores), plain.scores)
    for kind, maps in plain.pattern_maps.items():
        assert_allclose(result.pattern_maps[kind], maps, rtol=0, atol=1e-10)


# Voxels


# One of the voxels is constant in some tests.
pytestmark = pytest.mark.filterwarnings("ignore:1 of 8 features hold NaN")
ADJACENCY = (np.eye(8, k=1) + np.eye(8, k=-1) + np.eye(8)) > 0
LATTICE = GraphSmooth(ADJACENCY & ~np.eye(8, dtype=bool))


def options_of(kernel):
    options = {"kernel": kernel, "reg": Tuned(GRID), "cv": CV}
    return options | {"n_permutations": 3, "random_state": SEED}


@pytest.mark.some(3)
@pytest.mark.parametrize(
    "kernel", ["linear", RBF(0.05), LATTICE, ["linear", "rbf"], [LATTICE, RBF(0.02)]]
)
def test_searchlight(kernel):
    X = make_data(8)[:, :, 0]
    X[:, 4] = 1.0  # nothing to decode there
    options = options_of(kernel)
    result = searchlight(
        X, CODES, adjacency=ADJACENCY, standardize=False, null="full", **options
    )
    for i in range(8):
        columns = np.setdiff1d(np.flatnonzero(ADJACENCY[i]), [4])
        if i == 4:
            assert np.isnan(result.scores[i])
            assert np.isnan(result.lambdas[i]).all()
            assert (result.penalty["kernel"][i] == -1).all()
            continue
        options["kernel"] = [
            k.take(columns) if k is LATTICE else k for k in aslist(kernel)
        ]
        if len(options["kernel"]) == 1:
            options["kernel"] = options["kernel"][0]
        expected = cross_validate(X[:, columns], CODES, **options)
        assert_same_position(result, i, expected)


@pytest.mark.parametrize("kernel", ["linear", LATTICE, ["linear", RBF(0.05)]])
def test_regions(kernel, tmp_path):
    X = make_data(8)[:, :, 0]
    regions = np.array([1, 1, 1, 2, 3, 2, 2, 3])
    options = options_of(kernel)
    given = {"labels_img": regions, "standardize": False, "null": "full"}
    result = decode_regions(
        X, CODES, checkpoint=tmp_path / "run.h5", **given, **options
    )
    for i in range(3):
        columns = np.flatnonzero(regions == i + 1)
        taken = kernel.take(columns) if kernel is LATTICE else kernel
        expected = cross_validate(X[:, columns], CODES, **options | {"kernel": taken})
        assert_same_position(result, i, expected)
    again = decode_regions(X, CODES, checkpoint=tmp_path / "run.h5", **given, **options)
    assert again == result


def test_wide_searchlight_is_of_kernels():
    # With more voxels than trials in a sphere.
    X = make_data(60)[:, :, 0]
    everywhere = np.ones((60, 60), bool)
    everywhere[:30, 30:] = everywhere[30:, :30] = False
    options = options_of("linear")
    result = searchlight(X, CODES, adjacency=everywhere, standardize=False, **options)
    expected = cross_validate(X[:, :30], CODES, **options)
    assert_same_position(result, 0, expected)


class Rbf:
    """A kernel that is written with its address."""

    def __call__(self, X, Y):
        return rbf_kernel(X, Y, gamma=0.05)


def test_a_checkpoint_knows_the_groups_and_the_values_of_kernels(tmp_path):
    X, path = make_data(4)[:, :, 0], tmp_path / "run"
    regions = np.array([1, 1, 2, 2])

    def compute(groups=None, kernel=None, grid=GRID):
        kernels = [Rbf() if kernel is None else kernel, "linear"]
        options = {"reg": Tuned(grid), "cv": CV, "groups": groups}
        options |= {"labels_img": regions, "standardize": False, "checkpoint": path}
        return decode_regions(X, CODES, kernel=kernels, **options)

    expected = compute()
    assert compute().scores.tolist() == expected.scores.tolist()
    with pytest.raises(ValueError, match="roups"):
        compute(np.arange(N) % 5)
    with pytest.raises(ValueError, match="the data of the kernel's values differ"):
        compute(kernel=lambda X, Y: 2 * Rbf()(X, Y))
    with pytest.raises(ValueError, match=r"reg was .* and is .*Tuned\("):
        compute(grid=GRID[1:])
