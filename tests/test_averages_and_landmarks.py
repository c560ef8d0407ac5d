"""Averages, landmarks and reduced rank, at every entry alike."""

from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics.pairwise import linear_kernel, rbf_kernel
from sklearn.model_selection import KFold, ShuffleSplit, StratifiedKFold

from mvpa_kfda import (
    RBF,
    KernelFDA,
    Polynomial,
    Ridge,
    Shrinkage,
    Tuned,
    cross_validate,
    decode_epochs,
    decode_regions,
    generalize_arrays,
)
from mvpa_kfda.decoding.positions import SubsetPositions
from mvpa_kfda.kfda.direct import apply, prepare
from mvpa_kfda.kfda.estimator import resolve_method
from mvpa_kfda.kfda.folds import make_folds
from mvpa_kfda.kfda.hat import hat_from_features, hat_from_gram
from mvpa_kfda.kfda.kernels import (
    EmpiricalMap,
    GraphSmooth,
    Nystrom,
)
from tests import build, reference
from tests.entries import (
    CODES,
    DATA,
    ENTRIES,
    NAMES,
    NEAR,
    N,
    P,
    T,
    pairs_of_times,
)

GROUPS = np.arange(N) // 12
#: Stratified once and for all.
CV = list(StratifiedKFold(3).split(CODES, CODES))
CHAIN = GraphSmooth(build.chain(P))
TUNED = Tuned([Ridge(lam) for lam in (100.0, 10.0, 1.0)])
#: Not those that work on trials before they are averaged.
AVERAGING = {
    name: entry
    for name, entry in ENTRIES.items()
    if entry.has("average") and entry.holder != "image" and name != "power"
}
#: Those where kernels that are not linear can be averaged.
MAPS = {name: e for name, e in AVERAGING.items() if e.cells is not pairs_of_times}
#: How penalties are found.
CHOOSING = {"fixed": 0.3, "tuned": TUNED, "auto": "auto"}
everywhere = pytest.mark.parametrize("entry", AVERAGING.values(), ids=AVERAGING)


def assert_same(one, other, rtol=0.0):
    """Assert that two results hold the same scores, predictions and penalties."""
    assert_allclose(one.scores, other.scores, rtol=0, atol=1e-12)
    assert_array_equal(one.predicted, other.predicted)
    assert_allclose(one.null, other.null, rtol=0, atol=1e-6)
    assert one.penalty.keys() == other.penalty.keys()
    assert_allclose(one.lambdas, other.lambdas, rtol=rtol, atol=0)
    df = one.degrees_of_freedom
    assert_allclose(df, other.degrees_of_freedom, rtol=rtol, atol=0)


# Averages


@pytest.mark.some(24)
@pytest.mark.parametrize("reg", [0.3, TUNED, "auto"], ids=["fixed", "tuned", "auto"])
@pytest.mark.parametrize("kernel", ["linear", CHAIN], ids=["linear", "smooth"])
@everywhere
def test_averages_are_those_by_hand(entry, kernel, reg):
    options = {"kernel": kernel, "reg": reg, "n_permutations": 4, "random_state": 0}
    result = entry(DATA, NAMES, cv=CV, average=2, **options)
    assert result.members.shape == (18, 2)
    assert (CODES[result.members] == result.y[:, None]).all()
    averaged = np.array([DATA[members].mean(axis=0) for members in result.members])
    cv = [(train, test) for train, test in result.folds]
    scheme = result.parameters["permute"]
    assert scheme == "within_folds"
    by_hand = entry(averaged, NAMES[result.members[:, 0]], cv=cv, **options)
    assert by_hand.members is None
    assert_same(result, by_hand, rtol=1e-10)
    positions = result.shape[:1] if entry.cells is pairs_of_times else result.shape
    folds = (3,) if reg is TUNED else ()
    assert np.shape(result.lambdas) == positions + folds
    assert np.shape(result.degrees_of_freedom) == positions + folds


def averaged_kernel(X, members):
    """Return S K S' of the Gaussian kernel of features."""
    S = np.zeros((len(members), len(X)))
    np.put_along_axis(S, members, 1 / members.shape[1], axis=1)
    return S @ rbf_kernel(X, gamma=0.05) @ S.T


@pytest.mark.parametrize(("name", "reg"), build.by_turns(MAPS, CHOOSING, 3))
def test_other_kernels_are_averaged_themselves(name, reg):
    entry, reg = MAPS[name], CHOOSING[reg]
    options = {"reg": reg, "n_permutations": 4, "random_state": 0}
    result = entry(kernel=RBF(0.05), average=2, **options)
    y = NAMES[result.members[:, 0]]
    for cell, at in entry.cells(DATA).items():
        K = averaged_kernel(at.X, result.members)
        expected = cross_validate(
            K, y, kernel="precomputed", cv=result.folds, **options
        )
        assert_array_equal(result.predicted[cell], expected.predicted)
        lambdas = result.lambdas if cell == () else result.lambdas[cell]
        assert_allclose(lambdas, expected.lambdas, rtol=1e-9, atol=0)
        null = result.null[(slice(None), *cell)]
        assert_allclose(null, expected.null, rtol=0, atol=1e-6)


LISTS_OF_KERNELS = [["linear", CHAIN], ["linear", RBF(0.05)], [RBF(0.01), RBF(0.1)]]


@pytest.mark.some(5)
@pytest.mark.parametrize(("name", "kernels"), build.by_turns(MAPS, KERNELS, 3))
def test_a_kernel_of_a_list_is_chosen_for_averages(name, kernels):
    entry = MAPS[name]
    options = {"reg": TUNED, "cv": CV, "average": 2, "random_state": 0}
    result = entry(DATA, NAMES, kernel=kernels, **options)
    alone = [entry(DATA, NAMES, kernel=kernel, **options) for kernel in kernels]
    criteria = [each.penalty["criterion"] for each in alone]
    expected = np.concatenate(criteria, axis=-2)
    assert_allclose(result.penalty["criterion"], expected, rtol=1e-9, atol=0)
    shape = (*expected.shape[:-2], -1)
    best = expected.reshape(shape).argmin(axis=-1)
    assert_array_equal(result.penalty["kernel"], best // 3)


def test_averages_within_groups():
    result = cross_validate(
        DATA[:, :, 0], NAMES, groups=GROUPS, average=2, random_state=0, reg=TUNED
    )
    assert (GROUPS[result.members] == result.groups[:, None]).all()
    averaged = DATA[:, :, 0][result.members].mean(axis=1)
    by_hand = cross_validate(
        averaged, result.classes[result.y], groups=result.groups, reg=TUNED
    )
    assert_same(result, by_hand, rtol=1e-10)


@everywhere
def test_an_average_of_single_trials_changes_nothing(entry):
    plain = entry(DATA, NAMES, cv=CV)
    single = entry(DATA, NAMES, cv=CV, average=1)
    order = np.argsort(single.members[:, 0])
    assert_array_equal(single.predicted[..., order], plain.predicted)


# Landmarks


@pytest.mark.parametrize(
    "entry", [e for e in AVERAGING.values() if e.cells is pairs_of_times]
)
def test_landmarks_of_kernels_are_not_averaged_for_other_times(entry):
    with pytest.raises(ValueError, match="average=2 needs a linear kernel"):
        entry(DATA, NAMES, cv=CV, kernel="rbf", approx=Nystrom(N), average=2)


KERNELS = {"0.05": RBF(0.05), "rbf": "rbf", "poly": Polynomial(2), "W": CHAIN}
REGS = {"fixed": 0.3, "tuned": TUNED, "auto": "auto"}


@pytest.mark.some(22)
@pytest.mark.parametrize(
    ("name", "kernel", "reg", "average"),
    build.every_pair(
        [
            each
            for each in product(AVERAGING, KERNELS, REGS, [None, 2])
            if each[0] in MAPS or each[-1] is None
        ]
    ),
)
def test_all_landmarks_are_exact(name, kernel, reg, average):
    entry, kernel, reg = AVERAGING[name], KERNELS[kernel], REGS[reg]
    options = {"kernel": kernel, "reg": reg, "cv": CV, "average": average}
    options |= {"n_permutations": 3, "random_state": 0}
    exact = entry(DATA, NAMES, **options)
    result = entry(DATA, NAMES, approx=Nystrom(N), **options)
    assert_same(result, exact, rtol=1e-7)


@pytest.mark.some(3)
@everywhere
def test_landmarks_for_a_list_of_kernels(entry):
    options = {"kernel": ["linear", RBF(0.05)], "reg": TUNED, "cv": CV}
    exact = entry(DATA, NAMES, **options)
    result = entry(DATA, NAMES, approx=Nystrom(N), **options)
    assert_same(result, exact, rtol=1e-7)
    assert_array_equal(result.penalty["kernel"], exact.penalty["kernel"])
    few = entry(DATA, NAMES, approx=Nystrom(4), **options)
    assert (few.degrees_of_freedom <= 5).all()


def test_landmarks_and_empirical_maps_know_channels_by_name():
    # The graph's channels are in another order than those of the data.
    epochs, order = build.epochs(DATA, units={}), np.array([3, 0, 4, 2, 1])
    adjacency = NEAR[np.ix_(order, order)]
    named = GraphSmooth((adjacency, [f"EEG{i}" for i in order]), 5.0)
    in_order = GraphSmooth(build.chain(P), 5.0)
    expected, result, unlike = (
        decode_epochs(epochs, NAMES, kernel=EmpiricalMap(kernel), cv=CV)
        for kernel in (in_order, named, GraphSmooth(adjacency, 5.0))
    )
    assert_same(result, expected, rtol=1e-10)
    assert (unlike.lambdas != expected.lambdas).any()
    options = {"kernel": named, "reg": Ridge(1.0), "cv": CV}
    exact = decode_epochs(epochs, NAMES, **options)
    result = decode_epochs(epochs, NAMES, approx=Nystrom(N), **options)
    assert_same(result, exact, rtol=1e-7)


# Reduced rank


WITH_RANK = [name for name, entry in ENTRIES.items() if entry.has("n_components")]


@pytest.mark.some(15)
@pytest.mark.parametrize(
    ("name", "reg"),
    [(name, "fixed") for name in WITH_RANK]
    + build.by_turns(WITH_RANK, ["tuned", "auto"]),
)
def test_reduced_rank_everywhere(name, reg):
    entry, reg = ENTRIES[name], CHOOSING[reg]
    options = {"reg": reg, "n_permutations": 3, "random_state": 0}
    result = entry(n_components=1, **options)
    assert result.parameters["n_components"] == 1
    for cell, at in entry.cells(DATA).items():
        if np.array_equal(at.X, at.X_test):
            expected = cross_validate(at.X, NAMES, cv=CV, n_components=1, **options)
            assert_array_equal(result.predicted[cell], expected.predicted)
            null = result.null[(slice(None), *cell)]
            assert_allclose(null, expected.null, rtol=0, atol=1e-6)
    if reg == 0.3:
        assert (entry(**options).predicted != result.predicted).any()


def test_reduced_rank_from_time_to_time():
    result = generalize_arrays(DATA, NAMES, n_components=1, reg=Ridge(2.0), cv=CV)
    for t, u in np.ndindex(T, T):
        K = linear_kernel(DATA[:, :, t])
        cross = linear_kernel(DATA[:, :, u], DATA[:, :, t])
        for train, test in CV:
            model = reference.fit(K[np.ix_(train, train)], CODES[train], 2.0, 3)
            expected, _ = reference.reduced(model, cross[np.ix_(test, train)], 1)
            assert_array_equal(result.predicted[t, u, test], expected)


# Large test sets of low-rank hats


@pytest.mark.parametrize("kernel", ["rbf", ["linear", RBF(0.1)]], ids=["one", "list"])
@pytest.mark.parametrize("sampling", ["kmeans", "uniform"])
def test_landmarks_of_a_region_do_not_depend_on_the_folds(sampling, kernel):
    # Test sets that are not in the order of trials.
    cv = KFold(3, shuffle=True, random_state=1)
    reg = TUNED if isinstance(kernel, list) else 0.3
    approx = Nystrom(5, sampling)
    options = {"kernel": kernel, "reg": reg, "cv": cv, "approx": approx}
    options |= {"n_permutations": 3, "random_state": 0}
    expected = cross_validate(DATA[:, :, 0], NAMES, **options)
    result = decode_regions(
        DATA[:, :, 0], NAMES, labels_img=np.ones(P), standardize=False, **options
    )
    assert_array_equal(result.classes[result.predicted[0]], expected.predictions)
    assert_allclose(result.null[:, 0], expected.null, rtol=1e-6, atol=0)
    lambdas = np.atleast_1d(expected.lambdas)
    assert_allclose(result.lambdas.ravel(), lambdas.ravel(), rtol=1e-9, atol=0)


def test_landmarks_by_chance_are_the_same_everywhere():
    X = DATA[:, :, 0]
    approx = Nystrom(5, "uniform", random_state=None)
    kernel, _ = resolve_method("rbf", 0.3, approx)
    assert_array_equal(kernel.fit(X).basis, kernel.fit(X).basis)
    choice, _ = resolve_method(["linear", RBF(0.1)], TUNED, approx)
    one, other = (each.fit(X).basis for each in choice.kernels)
    assert_allclose(one + X.mean(axis=0), other + X.mean(axis=0), rtol=1e-12, atol=0)
    seeds = {resolve_method("rbf", 0.3, approx)[0].approx.random_state for _ in "abc"}
    assert len(seeds) == 3


def test_landmarks_in_maps_are_one_position_at_a_time():
    n = 50_000
    kernel, _ = resolve_method("rbf", 0.3, Nystrom(50))
    source = SubsetPositions(np.zeros((1, n)), np.zeros(1000), None, kernel, 0.3)
    assert source.block_length == 4


@pytest.mark.parametrize("reg", [Shrinkage(0.2), 0.3], ids=repr)
@pytest.mark.parametrize("kernel", ["linear", CHAIN], ids=["linear", "W"])
def test_all_landmarks_of_a_linear_kernel_leave_the_penalty(kernel, reg):
    X, approx = DATA[:, :, 0], Nystrom(N)
    options = {"kernel": kernel, "reg": reg, "cv": CV, "random_state": 0}
    exact = cross_validate(X, NAMES, **options)
    result = cross_validate(X, NAMES, approx=approx, **options)
    assert result.lambdas == pytest.approx(exact.lambdas, rel=1e-9)
    averages = cross_validate(X, NAMES, approx=approx, average=2, **options)
    expected = cross_validate(X, NAMES, average=2, **options)
    assert averages.lambdas == pytest.approx(expected.lambdas, rel=1e-9)
    for each in (approx, None):
        model = KernelFDA(kernel, reg, approx=each).fit(X, NAMES)
        assert model.lambda_ == pytest.approx(exact.lambdas, rel=1e-9)


def long_problem(n=1100, p=3):
    rng = np.random.default_rng(0)
    codes = rng.integers(3, size=n)
    X = rng.standard_normal((n, p)) + 0.5 * rng.standard_normal((3, p))[codes]
    return X, np.array([codes, rng.permutation(codes), rng.permutation(codes)])


@pytest.mark.parametrize(
    "cv", [KFold(2), ShuffleSplit(2, test_size=520, random_state=0)]
)
def test_large_test_sets_are_not_made_of_blocks(cv):
    X, labels = long_problem()
    folds = make_folds(cv, labels[0])
    plan = prepare(hat_from_features(X, Ridge(30.0)), folds)
    dense = prepare(hat_from_gram(X @ X.T, Ridge(30.0)), folds)
    assert all(each.rows is not None for each in plan.inverses)
    assert all(each.rows is None for each in dense.inverses)
    got, expected = (apply(each, labels, 3, want_scores=True) for each in (plan, dense))
    assert_array_equal(got.predicted, expected.predicted)
    scores = expected.class_scores
    atol = 1e-9 * np.abs(scores).max()
    assert_allclose(got.class_scores, scores, rtol=0, atol=atol)
    single = prepare(hat_from_features(X, Ridge(30.0)), folds, "float32")
    scores = apply(single, labels, 3, want_scores=True).class_scores
    assert scores.dtype == np.float32
    assert_allclose(scores, expected.class_scores, rtol=0, atol=1e5 * atol)


@pytest.mark.parametrize("c", [2, 3])
@pytest.mark.parametrize("cv", [KFold(4), KFold(5), ShuffleSplit(3, random_state=0)])
def test_small_test_sets_by_the_same_route(cv, c, monkeypatch):
    monkeypatch.setattr("mvpa_kfda.kfda.direct._LARGE_FOLD", 2)
    monkeypatch.setattr("mvpa_kfda.kfda.direct.is_low_rank", lambda hat, m: True)
    X, labels = long_problem(41)
    labels = labels % c
    folds = make_folds(cv, labels[0])
    plan = prepare(hat_from_features(X, Ridge(3.0)), folds)
    assert all(each.rows is not None for each in plan.inverses)
    pairs = sorted(folds.pairs, key=lambda pair: len(pair[1]))
    expected = reference.reference_cross_validate(
        linear_kernel(X), labels[0], pairs, 3.0, labels
    )
    got = apply(plan, labels, c, want_scores=True)
    assert_array_equal(got.predicted.T, expected.predictions)
    scores = got.class_scores.transpose(2, 0, 1)
    assert_allclose(scores, expected.class_scores, rtol=0, atol=1e-10)


def test_tuning_with_large_test_sets():
    X, labels = long_problem()
    y, cv = labels[0], KFold(2)
    tuned = Tuned([Ridge(lam) for lam in (1e4, 300.0, 10.0)])
    options = {"reg": tuned, "cv": cv, "n_permutations": 2, "random_state": 0}
    options["groups"] = np.arange(len(y)) % 7
    result = cross_validate(X, y, **options)
    dense = cross_validate(X @ X.T, y, kernel="precomputed", **options)
    assert_same(result, dense, rtol=1e-8)
    criteria = dense.penalty["criterion"]
    assert_allclose(result.penalty["criterion"], criteria, rtol=1e-9, atol=0)


def test_a_large_test_set_that_is_fitted_exactly():
    # One feature is there in the test set only.
    X, labels = long_problem()
    X[:550, 0] = 0
    X[550:, 0] -= X[550:, 0].mean()
    cv = [
        (np.arange(550), np.arange(550, 1100)),
        (np.arange(550, 1100), np.arange(550)),
    ]
    for reg, error in (
        (Ridge(1e-10), "is too small"),
        (Tuned([1e-14]), "No lambda of"),
    ):
        with pytest.raises(ValueError, match=error):
            cross_validate(X, labels[0], reg=reg, cv=cv)


def test_averages_of_other_trials_mean_nothing():
    other = {"X_test": DATA[:12] + 1.0}
    for options, given in ((other, "tests on other trials"), ({"cv": CV}, "y_test")):
        y_test = NAMES[: 12 if "X_test" in options else N]
        with pytest.raises(ValueError, match=rf"average=2 .* combined with {given}"):
            generalize_arrays(DATA, NAMES, y_test=y_test, average=2, **options)
