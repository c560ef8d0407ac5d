"""From the user's penalty to lambda, for kernel matrices and for features."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import hadamard
from sklearn.base import clone
from sklearn.covariance import ledoit_wolf_shrinkage, oas
from sklearn.metrics.pairwise import rbf_kernel

from mvpa_kfda import (
    RBF,
    DegreesOfFreedom,
    KernelFDA,
    Ridge,
    Shrinkage,
    Tuned,
    cross_validate,
)
from mvpa_kfda.kfda.hat import centre_gram, hat_from_gram, make_hat, scatter_moments
from mvpa_kfda.kfda.kernels import Linear, Nystrom, Penalty, Precomputed
from mvpa_kfda.kfda.penalties import (
    Auto,
    Farthest,
    candidates,
    check_method,
    check_reg,
    resolve_penalty,
)
from tests import reference

#: Trials and features: more trials, more features, and as many.
SIZES = {"n > p": (40, 6), "n < p": (20, 50), "n = p": (20, 20), "one": (30, 1)}
by_size = pytest.mark.parametrize(("n", "p"), SIZES.values(), ids=SIZES)
#: Every penalty that needs no labels.
REGS = [0.3, Ridge(2.5), Shrinkage(0.2), DegreesOfFreedom(1.7), "ledoit_wolf", "oas"]
REGS += [check_reg("auto")]


def make_data(n, p, seed=0):
    """Return correlated features in another unit than 1, off the origin."""
    rng = np.random.default_rng(seed)
    mixing = rng.standard_normal((p, p)) / np.sqrt(p)
    return 7.0 + 2.0 * rng.standard_normal((n, p)) @ mixing


def centred(X):
    return X - X.mean(axis=0)


def both_moments(X):
    """Return the moments of features, and of their kernel matrix."""
    Xc = centred(X)
    return scatter_moments(X, X.shape[1])[1], centre_gram(Xc @ Xc.T, False, X.shape[1])[
        1
    ]


# ------------------------------------------------------------------------- the numbers


@by_size
def test_moments_of_features_and_of_their_kernel(n, p):
    X = make_data(n, p)
    Xc = centred(X)
    primal, dual = both_moments(X)
    assert_allclose(primal.matrix, Xc.T @ Xc, rtol=0, atol=1e-10)
    assert_allclose(dual.matrix, Xc @ Xc.T, rtol=0, atol=1e-10)
    positive = np.linalg.svd(Xc, compute_uv=False)[: min(n - 1, p)] ** 2
    for moments in (primal, dual):
        assert moments.n == n
        assert_allclose(moments.diagonal, np.square(Xc).sum(axis=1), rtol=1e-12, atol=0)
        assert moments.scale == pytest.approx(np.trace(Xc @ Xc.T) / n, rel=1e-12)
        values = moments.eigenvalues
        assert (np.diff(values) >= 0).all()
        values = values[values > moments.noise]
        assert_allclose(values[::-1], positive, rtol=1e-9, atol=0)


@by_size
@pytest.mark.parametrize("reg", REGS, ids=str)
def test_lambda_is_the_same_by_both_routes_in_any_unit(reg, n, p):
    X = make_data(n, p)
    lam, dual = (resolve_penalty(reg, each) for each in both_moments(X))
    assert isinstance(lam, float)
    assert lam > 0
    assert lam == pytest.approx(dual, rel=1e-9)
    other = resolve_penalty(reg, both_moments(1e-6 * X)[0])
    if isinstance(reg, Ridge):
        assert lam == other == 2.5
    else:
        assert other == pytest.approx(1e-12 * lam, rel=1e-6)


def test_the_farthest_trial_is_told_by_its_distance_from_the_others():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20, 6))
    X[7] = 1e4 * rng.standard_normal(6)
    far = Farthest.of(np.square(centred(X)).sum(axis=1))
    others = np.delete(X, 7, axis=0)
    rest = np.square(centred(others)).sum() / 19
    assert far.trial == 7
    assert far.rest == pytest.approx(rest, rel=1e-6)
    distance = np.linalg.norm(X[7] - others.mean(axis=0))
    assert far.times == pytest.approx(distance / np.sqrt(rest), rel=1e-6)
    assert far.words(3).startswith("Trial 3 (counted from 0) is ")
    three = Farthest.of(np.square([-1.0, -1.0, 2.0]))  # of which two are the same
    assert (three.trial, three.rest < 1e-12) == (2, True)


# ------------------------------------------------------------------ degrees of freedom


@pytest.mark.parametrize("kernel", [Linear(), RBF(), RBF(0.05)], ids=repr)
@pytest.mark.parametrize(("n", "p"), [(40, 6), (20, 50)], ids=["n > p", "n < p"])
def test_degrees_of_freedom_are_the_trace_of_the_hat(kernel, n, p):
    X = make_data(n, p)
    most = n if isinstance(kernel, RBF) else 1 + min(n - 1, p)
    for share in (0.001, 0.3, 0.9, 0.999):
        df = 1 + share * (most - 1)
        hat = make_hat(X, kernel, DegreesOfFreedom(df))
        assert np.trace(hat.matrix) == pytest.approx(df, abs=1e-8)
        assert hat.degrees_of_freedom == pytest.approx(df, abs=1e-8)


@pytest.mark.parametrize(("n", "p", "rank"), [(40, 6, 6), (20, 50, 19)])
def test_too_many_degrees_of_freedom(n, p, rank):
    X, y = make_data(n, p), np.arange(n) % 2
    for df in (rank + 1, rank + 2, n, n + 1):
        message = (
            rf"df={df} is too large: the {n} trials have {rank} independent directions "
            rf"here.*between 1 and {rank + 1}, both excluded"
        )
        with pytest.raises(ValueError, match=message):
            cross_validate(X, y, reg=DegreesOfFreedom(df), cv=4)
    least = cross_validate(X, y, reg=DegreesOfFreedom(rank + 0.99), cv=4)
    assert least.degrees_of_freedom == pytest.approx(rank + 0.99, abs=1e-8)


def test_dependent_features_are_no_directions():
    # As after an average reference; and a feature twice.
    X = make_data(60, 8)
    X -= X.mean(axis=1, keepdims=True)
    for Z, rank in ((X, 7), (np.column_stack([X, X[:, 0]]), 7)):
        with pytest.raises(ValueError, match=f"have {rank} independent directions"):
            make_hat(Z, Linear(), DegreesOfFreedom(rank + 1))
        with pytest.raises(ValueError, match=f"have {rank} independent directions"):
            hat_from_gram(Z @ Z.T, DegreesOfFreedom(rank + 1))


def test_degrees_of_freedom_of_white_features_are_a_plain_ratio():
    # With p equal eigenvalues s, df = 1 + p s / (s + lambda).
    X = hadamard(16)[:, 1:8] / 3
    for df in np.linspace(1.01, 7.99, 50):
        lam = resolve_penalty(DegreesOfFreedom(df), both_moments(X)[0])
        assert lam == pytest.approx(16 / 9 * (8 - df) / (df - 1), rel=1e-9)


# --------------------------------------------------------------------------- shrinkage


@by_size
def test_shrinkage_of_the_total_covariance(n, p):
    # The same as (1 - gamma) C + gamma tr(C) / p I up to a factor.
    X, gamma = make_data(n, p), 0.2
    C = np.cov(X.T, bias=True).reshape(p, p)
    shrunk = (1 - gamma) * C + gamma * np.trace(C) / p * np.eye(p)
    lam = resolve_penalty(Shrinkage(gamma), both_moments(X)[0])
    ours = C + lam / n * np.eye(p)
    assert_allclose(shrunk / shrunk[0, 0], ours / ours[0, 0], rtol=1e-10, atol=1e-12)


def test_shrinkage_of_other_kernels_is_by_trials():
    X = make_data(20, 3)
    K = rbf_kernel(X, gamma=0.05)
    trace = np.trace(K - K.mean(axis=0))
    for lam in (
        make_hat(X, RBF(0.05), Shrinkage(0.2)).lam,
        make_hat(K, Precomputed(), Shrinkage(0.2)).lam,
    ):
        assert lam == pytest.approx(0.25 * trace / 20, rel=1e-12)


@pytest.mark.parametrize("name", ["ledoit_wolf", "oas"])
@by_size
def test_estimated_shrinkage_is_that_of_sklearn(name, n, p):
    X = make_data(n, p)
    gamma = ledoit_wolf_shrinkage(X) if name == "ledoit_wolf" else oas(X)[1]
    lam = resolve_penalty(name, both_moments(X)[0])
    trace = np.square(centred(X)).sum()
    if p == 1:  # there is nothing to shrink towards
        assert gamma == 0
        assert lam == pytest.approx(1e-8 * trace / n, rel=1e-12)
        return
    assert 0 < gamma < 1
    assert lam == pytest.approx(gamma / (1 - gamma) * trace / p, rel=1e-9)
    # A quadratic penalty is a linear kernel of other features.
    omega = np.linspace(0.5, 2.0, p)
    plain = make_hat(X / np.sqrt(omega), Linear(), name).lam
    assert make_hat(X, Penalty(np.diag(omega)), name).lam == pytest.approx(plain, 1e-9)


@pytest.mark.parametrize("name", ["ledoit_wolf", "oas"])
def test_estimates_without_noise_or_structure_are_bounded(name):
    def relative(X):
        moments = both_moments(X)[0]
        return resolve_penalty(name, moments) / moments.scale

    sphere = np.random.default_rng(0).standard_normal((4000, 3))
    one_line = np.outer(np.arange(400.0), [1.0, 2.0, 3.0]) + 1e-9 * sphere[:400]
    for X in (sphere, one_line):
        assert 1e-8 <= relative(X) <= 1e3
    # Squares are alike and products zero, up to rounding, which should not decide.
    for unit in (1.0, 0.1, 3**-0.5):
        assert relative(unit * hadamard(8)[:, 1:5]) == pytest.approx(1e3)
    # Noise that looks whiter than noise would: scikit-learn's estimate is 1.
    X = np.random.default_rng(1).standard_normal((12, 4))
    assert (ledoit_wolf_shrinkage(X) if name == "ledoit_wolf" else oas(X)[1]) == 1
    assert relative(X) == pytest.approx(1e3)


# --------------------------------------------------------- the grid of a tuned penalty


@pytest.mark.parametrize("kernel", [Linear(), RBF(), RBF(1.0)], ids=repr)
@pytest.mark.parametrize(("n", "p"), [(40, 6), (20, 50)], ids=["n > p", "n < p"])
def test_grid_of_values_and_of_kernels_spans_the_spectrum(kernel, n, p):
    X = make_data(n, p)
    Xc = centred(X)
    K = Xc @ Xc.T if kernel == Linear() else kernel.fit(X)(X)
    lams = candidates(Tuned(), centre_gram(K)[1], Auto(), True)
    assert_allclose(lams, reference.lambdas_over_spectrum(K), rtol=1e-6, atol=0)
    Xc[:, :2] *= 1e5  # at most seven decades below the second
    second = np.linalg.svd(Xc - Xc.mean(axis=0), compute_uv=False)[1] ** 2
    lams = candidates(Tuned(), both_moments(Xc)[0], Auto(), True)
    assert lams[-1] == pytest.approx(1e-7 * second, rel=1e-6)


@by_size
def test_grid_of_classes_is_without_labels(n, p):
    X, groups = make_data(n, p), np.arange(n) // 4
    for moments in both_moments(X):
        for given in (None, groups):
            found = reference.label_free(centred(X) @ centred(X).T, p, given)
            expected = sorted([found.like_noise, found.anywhere], reverse=True)
            lams = candidates(Tuned(), moments, Auto(groups=given), False)
            assert_allclose(lams, expected, rtol=1e-6, atol=0)


def test_grid_of_numbers_and_penalties():
    moments = both_moments(make_data(40, 6))[0]
    scale = moments.scale
    tuned = Tuned([0.1, Ridge(3.0), 10, 0.1, np.float32(0.5)])
    expected = sorted([0.1 * scale, 3.0, 10 * scale, 0.5 * scale], reverse=True)
    lams = candidates(tuned, moments, Auto(), False)
    assert_allclose(lams, expected, rtol=1e-12, atol=0)
    for grid in (np.array([0.1, 1.0]), (0.1, 1.0), iter([0.1, 1.0])):
        assert Tuned(grid).grid == (0.1, 1.0)
        assert Tuned(grid=(0.1, 1.0)) == Tuned([0.1, 1.0])


def test_a_number_that_equals_a_penalty_by_chance():
    # For one of two kernels the grid has equal values; for the other it has not.
    X, y = make_data(20, 3), np.arange(20) % 2
    scale = np.square(centred(X)).sum() / 20
    tuned = Tuned([1.0, Ridge(scale)])
    result = cross_validate(X, y, kernel=["linear", RBF(0.1)], reg=tuned, cv=5)
    assert result.penalty["grid"].shape == (2, 2)


# --------------------------------------------------------------------------- bad input


def test_what_penalties_are_taken_for():
    assert check_reg("tuned") == Tuned()
    assert check_reg("oas") == "oas"
    assert check_reg(2) == 2.0
    assert check_reg(Ridge(3)) == Ridge(3)
    for regs in ([0.1, 1.0], (0.1, Ridge(1)), np.array([0.1, 1])):
        assert check_reg(regs) == Tuned(regs)
    model = clone(KernelFDA(reg=Tuned([0.1, 1.0])))
    assert model.reg == Tuned([0.1, 1.0])
    assert repr(Tuned()).startswith("Tuned(grid='auto'")
    check_method(Penalty(np.eye(2)), "oas")


def grid(value):
    return Tuned([0.1, value])


ABOVE, NUMBER = "{}. Allowed: a finite number above", "of type .*Allowed: a num"
SHARE, MORE = "between 0 and 1, both excluded", "of more than 1, which the intercept"
ITEM, GRID = r"a number above zero\. Or a Ridge objec", "of Tuned: .*'auto', or a list"
ALL = r"Shrinkage\(gamma\).*'tuned'.*'oas'.*list"
#: What makes a penalty, values that are refused, the error, and its message.
WRONG = [
    (Ridge, [0, -1.0, np.nan, np.inf], ValueError, f"'lambda': {ABOVE}"),
    (grid, [0, -1.0, np.nan, np.inf], ValueError, f"'grid': {ABOVE}"),
    (check_reg, [0, -1.0, np.nan, np.inf], ValueError, f"'reg': {ABOVE}"),
    (Ridge, ["0.3", None, True, 1j, [0.1, 1.0]], TypeError, NUMBER),
    (Shrinkage, ["0.3", None, True, 1j, (0.1, Ridge(1))], TypeError, NUMBER),
    (DegreesOfFreedom, ["0.3", None, True, 1j, [2, 3]], TypeError, NUMBER),
    (check_reg, ["0.3", None, True, 1j], TypeError, NUMBER),
    (check_reg, ["ledoit", "Tuned", None, Ridge, Tuned], TypeError, ALL),
    (Shrinkage, [1, 1.5, 0, -1, np.nan, np.inf], ValueError, SHARE),
    (DegreesOfFreedom, [1, 0.5, 0, -1, np.nan, np.inf], ValueError, MORE),
    (DegreesOfFreedom, ["10"], TypeError, f"'df': '10' of type str.*{MORE[3:]}"),
    (Tuned, [["0.1"], [None], [[0.1, 1.0]], [True], np.eye(2)], TypeError, ITEM),
    (Tuned, [[], (), np.array([]), np.array(0.3), 0.3, None, "log"], ValueError, GRID),
]


@pytest.mark.parametrize(("make", "values", "error", "message"), WRONG)
def test_wrong_penalties_are_refused(make, values, error, message):
    for value in values:
        with pytest.raises(error, match=message.format(value)):
            make(value)


def test_estimates_need_features():
    approximated = Nystrom(5).approximate("linear")
    for kernel in (RBF(), Precomputed(), approximated):
        for name in ("ledoit_wolf", "oas"):
            with pytest.raises(
                ValueError, match=f"reg='{name}'.*needs a linear kernel"
            ):
                check_method(kernel, name)
    check_method(Penalty(np.eye(2)), "oas")
