"""Averages, landmarks and reduced rank, at every entry alike."""

import build
import numpy as np
import pytest
import reference
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics.pairwise import linear_kernel, rbf_kernel
from sklearn.model_selection import (
    KFold,
    LeaveOneOut,
    ShuffleSplit,
    StratifiedKFold,
    cross_val_predict,
)

from mvpa_kfda import (
    RBF,
    KernelFDA,
    Polynomial,
    Ridge,
    Shrinkage,
    Tuned,
    cross_validate,
    decode_arrays,
    decode_epochs,
    decode_regions,
    generalize_arrays,
    generalize_epochs,
    load_result,
    searchlight,
)
from mvpa_kfda.decoding.positions import SubsetPositions
from mvpa_kfda.kfda.direct import DenseInverse, LowRankInverse, apply, prepare
from mvpa_kfda.kfda.folds import make_folds
from mvpa_kfda.kfda.hat import hat_from_features, hat_from_gram
from mvpa_kfda.kfda.kernels import EmpiricalMap
from mvpa_kfda.kfda.models import resolve_method
from mvpa_kfda.kfda.nystrom import Nystrom
from mvpa_kfda.kfda.smoothness import GraphSmooth, Penalty

N, P, T = 36, 5, 3
DATA, CODES = build.trials((12, 12, 12), P, T, offset=3.0)
NAMES = np.array(["cat", "dog", "house"])[CODES]
GROUPS = np.arange(N) // 12
CV = StratifiedKFold(3)
NEIGHBOURS = (np.eye(P, k=1) + np.eye(P, k=-1) + np.eye(P)) > 0
CHAIN = GraphSmooth(NEIGHBOURS & ~np.eye(P, dtype=bool))
REGIONS = np.array([1, 1, 2, 2, 2])
TUNED = Tuned([Ridge(lam) for lam in (100.0, 10.0, 1.0)], cv=4)


def array_searchlight(X, y, **options):
    return searchlight(
        X[:, :, 0], y, adjacency=NEIGHBOURS, standardize=False, null="full", **options
    )


def array_regions(X, y, **options):
    return decode_regions(
        X[:, :, 0], y, labels_img=REGIONS, standardize=False, null="full", **options
    )


def side_by_side(X, y, **options):
    return decode_arrays(X, y, window=2, window_mode="concatenate", **options)


def sensors(X, y, **options):
    return decode_epochs(
        build.epochs(X, units={}, sfreq=10.0), y, sensors=NEIGHBOURS, **options
    )


#: Every entry, given data (n, p, n_times).
ENTRIES = {
    "cross_validate": lambda X, y, **options: cross_validate(X[:, :, 0], y, **options),
    "decode_arrays": decode_arrays,
    "windows": side_by_side,
    "decode_epochs": lambda X, y, **options: decode_epochs(
        build.epochs(X, units={}, sfreq=10.0), y, **options
    ),
    "sensors": sensors,
    "generalize_arrays": generalize_arrays,
    "generalize_epochs": lambda X, y, **options: generalize_epochs(
        build.epochs(X, units={}, sfreq=10.0), y, **options
    ),
    "searchlight": array_searchlight,
    "decode_regions": array_regions,
}
everywhere = pytest.mark.parametrize("entry", ENTRIES.values(), ids=ENTRIES)
#: Those where kernels that are not linear can be averaged.
MAPS = {name: e for name, e in ENTRIES.items() if not name.startswith("generalize")}
on_maps = pytest.mark.parametrize("entry", MAPS.values(), ids=MAPS)


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


@pytest.mark.parametrize("reg", [0.3, TUNED], ids=["fixed", "tuned"])
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


def averaged_kernel(X, members):
    """Return S K S' of the Gaussian kernel of features."""
    S = np.zeros((len(members), len(X)))
    np.put_along_axis(S, members, 1 / members.shape[1], axis=1)
    return S @ rbf_kernel(X, gamma=0.05) @ S.T


@pytest.mark.parametrize("reg", [0.3, TUNED], ids=["fixed", "tuned"])
@on_maps
def test_other_kernels_are_averaged_themselves(entry, reg):
    options = {"reg": reg, "n_permutations": 4, "random_state": 0}
    result = entry(DATA, NAMES, kernel=RBF(0.05), cv=CV, average=2, **options)
    cells = {
        MAPS["cross_validate"]: [((), DATA[:, :, 0])],
        MAPS["windows"]: [
            ((t,), np.concatenate([DATA[:, :, t], DATA[:, :, t + 1]], axis=1))
            for t in range(2)
        ],
        MAPS["searchlight"]: [((i,), DATA[:, NEIGHBOURS[i], 0]) for i in range(P)],
        MAPS["decode_regions"]: [
            ((i,), DATA[:, REGIONS == i + 1, 0]) for i in range(2)
        ],
        MAPS["sensors"]: [
            ((i, t), DATA[:, NEIGHBOURS[i], t]) for i in range(P) for t in range(T)
        ],
    }.get(entry, [((t,), DATA[:, :, t]) for t in range(T)])
    y = NAMES[result.members[:, 0]]
    for cell, X in cells:
        K = averaged_kernel(X, result.members)
        expected = cross_validate(
            K, y, kernel="precomputed", cv=result.folds, **options
        )
        assert_array_equal(result.predicted[cell], expected.predicted)
        lambdas = result.lambdas if cell == () else result.lambdas[cell]
        assert_allclose(lambdas, expected.lambdas, rtol=1e-9, atol=0)
        null = result.null[(slice(None), *cell)]
        assert_allclose(null, expected.null, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    "kernels", [["linear", CHAIN], ["linear", RBF(0.05)], [RBF(0.01), RBF(0.1)]]
)
@on_maps
def test_a_kernel_of_a_list_is_chosen_for_averages(entry, kernels):
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


@pytest.mark.parametrize("average", [None, 2], ids=["trials", "averages"])
@pytest.mark.parametrize("reg", [0.3, TUNED], ids=["fixed", "tuned"])
@pytest.mark.parametrize(
    "kernel", [RBF(0.05), "rbf", Polynomial(2), CHAIN], ids=["0.05", "rbf", "poly", "W"]
)
@everywhere
def test_all_landmarks_are_exact(entry, kernel, reg, average):
    generalizes = entry not in MAPS.values()
    if generalizes and average:
        with pytest.raises(ValueError, match="average=2 needs a linear kernel"):
            entry(DATA, NAMES, cv=CV, kernel="rbf", approx=Nystrom(N), average=2)
        return
    options = {"kernel": kernel, "reg": reg, "cv": CV, "average": average}
    options |= {"n_permutations": 3, "random_state": 0}
    exact = entry(DATA, NAMES, **options)
    result = entry(DATA, NAMES, approx=Nystrom(N), **options)
    assert_same(result, exact, rtol=1e-7)


@everywhere
def test_landmarks_for_a_list_of_kernels(entry):
    options = {"kernel": ["linear", RBF(0.05)], "reg": TUNED, "cv": CV}
    exact = entry(DATA, NAMES, **options)
    result = entry(DATA, NAMES, approx=Nystrom(N), **options)
    assert_same(result, exact, rtol=1e-7)
    assert_array_equal(result.penalty["kernel"], exact.penalty["kernel"])
    few = entry(DATA, NAMES, approx=Nystrom(4), **options)
    assert (few.degrees_of_freedom <= 5).all()


def test_landmarks_know_channels_by_name():
    # The graph's channels are in another order than those of the data.
    epochs, order = build.epochs(DATA, units={}, sfreq=10.0), np.array([3, 0, 4, 2, 1])
    adjacency = NEIGHBOURS[np.ix_(order, order)]
    kernel = GraphSmooth((adjacency, [f"EEG{i}" for i in order]), 5.0)
    options = {"kernel": kernel, "reg": Ridge(1.0), "cv": CV}
    exact = decode_epochs(epochs, NAMES, **options)
    result = decode_epochs(epochs, NAMES, approx=Nystrom(N), **options)
    assert_same(result, exact, rtol=1e-7)


def test_empirical_maps_know_channels_by_name():
    epochs, order = build.epochs(DATA, units={}, sfreq=10.0), np.array([3, 0, 4, 2, 1])
    adjacency = NEIGHBOURS[np.ix_(order, order)]
    named = GraphSmooth((adjacency, [f"EEG{i}" for i in order]), 5.0)
    in_order = GraphSmooth(NEIGHBOURS, 5.0)
    expected, result, unlike = (
        decode_epochs(epochs, NAMES, kernel=EmpiricalMap(kernel), cv=CV)
        for kernel in (in_order, named, GraphSmooth(adjacency, 5.0))
    )
    assert_same(result, expected, rtol=1e-10)
    assert (unlike.lambdas != expected.lambdas).any()


# Reduced rank


@pytest.mark.parametrize("p", [P, 60])
@pytest.mark.parametrize("kernel", ["linear", RBF(0.05)], ids=str)
def test_reduced_rank_is_that_of_refitted_estimators(kernel, p):
    X = np.random.default_rng(0).standard_normal((N, p)) + 0.8 * CODES[:, None] ** 1.5
    model = KernelFDA(kernel, Ridge(2.0), n_components=1)
    expected = cross_val_predict(model, X, NAMES, cv=CV)
    options = {"kernel": kernel, "reg": Ridge(2.0), "cv": CV}
    result = cross_validate(X, NAMES, n_components=1, **options)
    assert_array_equal(result.predictions, expected)
    whole = cross_validate(X, NAMES, **options)
    assert (whole.class_scores != result.class_scores).any()
    all_of_them = cross_validate(X, NAMES, n_components=2, **options)
    assert_array_equal(all_of_them.class_scores, whole.class_scores)


@pytest.mark.parametrize("reg", [0.3, TUNED], ids=["fixed", "tuned"])
@everywhere
def test_reduced_rank_everywhere(entry, reg):
    options = {"reg": reg, "cv": CV, "n_permutations": 3, "random_state": 0}
    result = entry(DATA, NAMES, n_components=1, **options)
    assert result.parameters["n_components"] == 1
    same = {"n_components": 1} | options
    windows = [
        np.concatenate([DATA[:, :, t], DATA[:, :, t + 1]], axis=1) for t in range(2)
    ]
    cells = {
        ENTRIES["cross_validate"]: [((), DATA[:, :, 0])],
        ENTRIES["windows"]: [((t,), X) for t, X in enumerate(windows)],
        ENTRIES["searchlight"]: [((i,), DATA[:, NEIGHBOURS[i], 0]) for i in range(P)],
        ENTRIES["decode_regions"]: [((1,), DATA[:, REGIONS == 2, 0])],
        ENTRIES["sensors"]: [((2, 1), DATA[:, NEIGHBOURS[2], 1])],
        ENTRIES["generalize_arrays"]: [((t, t), DATA[:, :, t]) for t in range(T)],
        ENTRIES["generalize_epochs"]: [((t, t), DATA[:, :, t]) for t in range(T)],
    }.get(entry, [((t,), DATA[:, :, t]) for t in range(T)])
    for cell, X in cells:
        expected = cross_validate(X, NAMES, **same)
        assert_array_equal(result.predicted[cell], expected.predicted)
        null = result.null[(slice(None), *cell)]
        assert_allclose(null, expected.null, rtol=0, atol=1e-6)
    whole = entry(DATA, NAMES, **options)
    assert (whole.predicted != result.predicted).any()


def test_reduced_rank_from_time_to_time():
    result = generalize_arrays(DATA, NAMES, n_components=1, reg=Ridge(2.0), cv=CV)
    for t, u in np.ndindex(T, T):
        K = linear_kernel(DATA[:, :, t])
        cross = linear_kernel(DATA[:, :, u], DATA[:, :, t])
        for train, test in CV.split(K, CODES):
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
    assert_array_equal(kernel.fit(X).landmarks, kernel.fit(X).landmarks)
    choice, _ = resolve_method(["linear", RBF(0.1)], TUNED, approx)
    one, other = (each.fit(X).landmarks for each in choice.kernels)
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
    assert {type(each) for each in plan.inverses} == {LowRankInverse}
    assert {type(each) for each in dense.inverses} == {DenseInverse}
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
    folds = make_folds(cv, labels[0], warn_absent=False)
    plan = prepare(hat_from_features(X, Ridge(3.0)), folds)
    assert {type(each) for each in plan.inverses} == {LowRankInverse}
    pairs = sorted(folds.pairs, key=lambda pair: len(pair[1]))
    expected = reference.reference_cross_validate(
        linear_kernel(X), labels[0], pairs, 3.0, labels
    )
    got = apply(plan, labels, c, want_scores=True)
    assert_array_equal(got.predicted.T, expected.predictions)
    scores = got.class_scores.transpose(2, 0, 1)
    assert_allclose(scores, expected.class_scores, rtol=0, atol=1e-10)
    for batch, whole in zip(plan.batches, plan.inverses, strict=True):
        R = np.random.default_rng(0).standard_normal((2, batch.k, batch.m, 3))
        for fold in range(batch.k):
            part = whole.of([fold]).solve(R[:, [fold]])
            assert_allclose(part, whole.solve(R)[:, [fold]], rtol=0, atol=1e-12)


@pytest.mark.parametrize("criterion", ["squared_error", "accuracy", "log_loss"])
def test_tuning_with_large_test_sets(criterion):
    X, labels = long_problem()
    y, cv = labels[0], KFold(2)
    tuned = Tuned([Ridge(lam) for lam in (1e4, 300.0, 10.0)], criterion, 7)
    options = {"reg": tuned, "cv": cv, "n_permutations": 2, "random_state": 0}
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


# Results


@pytest.mark.parametrize("reg", [0.3, TUNED], ids=["fixed", "tuned"])
@everywhere
def test_results_are_saved_with_their_penalties(entry, reg, tmp_path):
    result = entry(DATA, NAMES, reg=reg, cv=CV, average=2, random_state=0)
    result.save(tmp_path / "result.h5")
    loaded = load_result(tmp_path / "result.h5")
    assert loaded == result
    assert_array_equal(loaded.lambdas, result.lambdas)
    assert_array_equal(loaded.members, result.members)
    positions = result.shape[:1] if "General" in type(result).__name__ else result.shape
    folds = () if reg == 0.3 else (3,)
    assert np.shape(loaded.lambdas) == positions + folds
    assert np.shape(loaded.degrees_of_freedom) == positions + folds


# Bad input


WRONG = [
    (
        {"n_components": 0},
        ValueError,
        "'n_components': 0. Allowed: a whole number of at",
    ),
    (
        {"n_components": 3},
        ValueError,
        "'n_components': 3. Allowed: at most 2, one less",
    ),
    ({"n_components": 1.5}, ValueError, "'n_components': 1.5. Allowed: a whole number"),
    (
        {"approx": "nystrom"},
        TypeError,
        "'approx': 'nystrom'. Allowed: None, or Nystrom",
    ),
    ({"approx": Nystrom}, TypeError, "'approx': <class .*Nystrom.*Allowed: None"),
    ({"approx": Nystrom(37)}, ValueError, "=37.* more landmarks than the 36 trials"),
    ({"average": 0}, ValueError, "'average': 0. Allowed: a whole number of at least 1"),
    ({"average": 5}, ValueError, "average=5 leaves class 'cat' without samples"),
    (
        {"average": 2, "cv": LeaveOneOut()},
        ValueError,
        "average=2 leaves class .* without samples.*no test set holds more than 1",
    ),
    (
        {"average": 2, "cv": ShuffleSplit(2, random_state=0)},
        ValueError,
        "average=2 needs every trial in exactly one test set",
    ),
    ({"kernel": ["linear", "rbf"]}, ValueError, "list of 2 kernels needs reg='tuned'"),
    ({"kernel": ["linear"], "reg": "tuned"}, ValueError, "of two or more kernels"),
    ({"kernel": "rbf", "reg": "ledoit_wolf"}, ValueError, "it needs a linear kernel"),
    ({"approx": Nystrom(5), "reg": "oas"}, ValueError, "it needs a linear kernel"),
    ({"reg": "ledoit"}, TypeError, "'reg': 'ledoit' .*'ledoit_wolf' and 'oas'"),
    ({"reg": Tuned(cv=25)}, ValueError, r"Tuned\(cv=25\) asks for more folds than"),
    (
        {"reg": Tuned(cv=StratifiedKFold(3)), "n_permutations": 3},
        ValueError,
        "draws folds from the labels",
    ),
    (
        {"reg": "tuned", "groups": np.arange(N) % 2, "cv": None},
        ValueError,
        "some training set holds a single group",
    ),
]


@pytest.mark.parametrize(("options", "error", "message"), WRONG)
@everywhere
def test_bad_input(entry, options, error, message):
    with pytest.raises(error, match=message):
        entry(DATA, NAMES, **{"cv": CV, **options})


def test_averages_of_other_trials_mean_nothing():
    other = {"X_test": DATA[:12] + 1.0}
    for options, given in ((other, "tests on other trials"), ({"cv": CV}, "y_test")):
        y_test = NAMES[: 12 if "X_test" in options else N]
        with pytest.raises(ValueError, match=rf"average=2 .* combined with {given}"):
            generalize_arrays(DATA, NAMES, y_test=y_test, average=2, **options)


def test_a_linear_kernel_is_averaged_by_its_features():
    result = generalize_arrays(DATA, NAMES, average=2, cv=CV, random_state=0)
    diagonal = decode_arrays(DATA, NAMES, average=2, cv=CV, random_state=0)
    assert_array_equal(np.diag(result.scores), diagonal.scores)


@pytest.mark.parametrize("entry", [array_searchlight, array_regions, sensors])
@pytest.mark.parametrize("size", [P - 1, P + 1])
def test_a_penalty_for_other_features_is_refused_by_maps(entry, size):
    # Though the columns of every position would be found in a larger one.
    kernel = Penalty(np.eye(size))
    for each in (kernel, [kernel, "rbf"], EmpiricalMap(kernel)):
        with pytest.raises(ValueError, match=f"{size} features, and the data have {P}"):
            entry(DATA, CODES, kernel=each, reg="tuned")
