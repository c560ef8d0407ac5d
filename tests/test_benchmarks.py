"""The benchmarks in the documentation: their sums, and small runs of them."""

import io
import re
import warnings
from contextlib import redirect_stdout
from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from docutils import nodes
from docutils.core import publish_doctree
from numpy.testing import assert_allclose, assert_array_equal
from threadpoolctl import threadpool_info, threadpool_limits

from mvpa_kfda import RBF, KernelFDA, Ridge
from tests.reference import fit

FOLDER = Path(__file__).parents[1] / "doc" / "benchmarks"


def benchmark(name):
    """Return a fixture that imports a script of the documentation."""

    @pytest.fixture
    def imported(monkeypatch):
        monkeypatch.syspath_prepend(FOLDER)
        return import_module(name)

    return imported


paper = benchmark("bench_paper")
loo = benchmark("bench_leave_one_out")
penalty = benchmark("bench_penalty")
calibration = benchmark("bench_calibration")
lasting = benchmark("bench_folds")
speed = benchmark("bench_group")
betas = benchmark("bench_betas")
steps = benchmark("bench_preprocess")
few = benchmark("bench_few_images")
repeats = benchmark("bench_repeats")
rdm = benchmark("bench_rdm")
people = benchmark("bench_people")
ratios = benchmark("ratios")
discoveries = benchmark("bench_discoveries")
orders = benchmark("bench_orders")


def read_tables(path):
    """Return the tables of a file as lists of rows of text, and its figures' names."""
    settings = {"halt_level": 2, "report_level": 2}  # a warning is an error
    document = publish_doctree(path.read_text("utf-8"), settings_overrides=settings)
    tables = [
        [[cell.astext() for cell in row.findall(nodes.entry)] for row in rows]
        for rows in (list(t.findall(nodes.row)) for t in document.findall(nodes.table))
    ]
    return tables, [image["uri"] for image in document.findall(nodes.image)]


def check_figures(path, uris):
    """Assert that the figures are where the documentation looks for them, and small."""
    for uri in uris:
        assert uri.startswith("/benchmarks/figures/")
        size = (path.parent / "figures" / Path(uri).name).stat().st_size
        assert 5_000 < size < 100_000


def test_paper_writes_its_tables(paper, tmp_path, monkeypatch):
    sizes = replace(
        paper.QUICK,
        n_classes=(3,),
        n_trials=(40,),
        n_features=(5, 60),
        n_features_permuted=(5,),
        n_permutations=(2,),
        seconds=0,
    )
    monkeypatch.setattr(paper, "QUICK", sizes)
    monkeypatch.setattr(paper, "RESULTS", None)  # is not to be written
    paper.main(["--quick", "--out", str(tmp_path / "results.rst")])
    (claims, cases), uris = read_tables(tmp_path / "results.rst")
    assert [row[1] for row in claims] == ["The paper", "up to 1,000", "up to 10,000"]
    assert [row[0] for row in cases[1:]] == [
        "3 classes, 40 trials, 5 features",
        "3 classes, 40 trials, 60 features",
        "3 classes, 40 trials, 5 features, 2 permutations",
    ]
    # After one of 10 or 30 models the time is up: all is extrapolated.
    assert all(cell.endswith("*)") for row in cases[1:] for cell in row[2:])
    assert len(uris) == 1
    check_figures(tmp_path / "results.rst", uris)


@pytest.mark.parametrize("p", [6, 80])
@pytest.mark.parametrize("name", ["textbook FDA", "textbook KFDA", "KernelFDA"])
def test_refitted_methods_are_the_textbook_discriminant(paper, name, p):
    rng = np.random.default_rng(p)
    codes = rng.permutation(np.repeat([0, 1, 2, 3], [9, 14, 20, 12]))
    X = rng.standard_normal((55, p)) + rng.standard_normal((4, p))[codes] + 2
    X_test = rng.standard_normal((200, p)) + 2
    expected = fit(X @ X.T, codes, 1.7, 4).predict(X_test @ X.T)
    found = paper.METHODS[name](X, codes, X_test, 1.7)
    assert len(set(expected)) == 4
    assert np.mean(found == expected) > 0.99  # but for what is as near to two


def test_wrong_method_is_found_out(paper, monkeypatch):
    problem = paper.Problem(4, 40, 10, 2, seed=0)
    paper.check_equal(problem)

    def other_penalty(X, y, X_test, lam):
        return paper.kernel_fda(X, y, X_test, lam / 100)

    monkeypatch.setitem(paper.METHODS, "KernelFDA", other_penalty)
    with pytest.raises(AssertionError, match="KernelFDA"):
        paper.check_equal(problem)


@pytest.mark.parametrize(("limit", "done"), [(0, 1), (2.5, 3), (99, 20)])
def test_rest_of_a_long_run_is_extrapolated(paper, monkeypatch, limit, done):
    problem = paper.Problem(2, 20, 3, 1, seed=0)
    jobs = []
    monkeypatch.setattr(problem, "refit", lambda method, job: jobs.append(job))
    monkeypatch.setattr(paper.time, "perf_counter", lambda: float(len(jobs)))
    assert paper.time_refit(problem, None, limit) == (20.0, done / 20)
    assert jobs == list(range(done))


def test_leave_one_out_writes_its_tables(loo, tmp_path, monkeypatch):
    sizes = loo.Sizes(
        rings=(12, 20),
        n_rings=2,
        n_train=40,
        n_test=50,
        n_sets=1,
        widths=(0.5, 3.0),
        penalties=(0.1, 1.0),
    )
    monkeypatch.setattr(loo, "QUICK", sizes)
    monkeypatch.setattr(loo, "RESULTS", None)  # is not to be written
    loo.main(["--quick", "--out", str(tmp_path / "results.rst")])
    (rings, ridge), uris = read_tables(tmp_path / "results.rst")
    assert [row[0] for row in rings] == ["Trials", "12", "20"]
    for row in rings[1:]:
        assert 1e-6 < float(row[5]) < 0.5  # the basis that a left-out trial still is
        assert float(row[6]) < 1e-20
        assert float(row[7]) < 1e-20
        closed, refitted = row[9].split(", ")
        assert closed == refitted
    n = len(loo.WAYS)
    assert [row[0] for row in ridge[1:]] == ["ringnorm"] * n + ["banana"] * n
    for row in ridge[1:]:
        assert float(row[4]) in sizes.widths
        assert float(row[5]) in sizes.penalties
        assert float(row[6].split(" ")[0]) < 0.5
    assert len(uris) == 2
    check_figures(tmp_path / "results.rst", uris)


def ring(loo, n):
    """Return a kernel matrix, codes and targets."""
    X, codes = loo.annulus(n, np.random.default_rng(0))
    return RBF(0.1)(X), codes, loo.targets(codes)


def test_dual_refit_solves_equation_4(loo):
    K, _, y = ring(loo, 20)
    mu, i = 0.7, 6
    kept = np.delete(np.arange(20), i)
    K_i, ones = K[np.ix_(kept, kept)], np.ones((19, 1))
    left = np.block(
        [[K_i @ K_i + mu * np.eye(19), K_i @ ones], [(K_i @ ones).T, 19 * np.eye(1)]]
    )
    right = np.vstack([K_i, ones.T]) @ y[kept]
    *alpha, b = np.linalg.solve(left, right)
    expected = K[:, kept] @ alpha + b
    assert_allclose(loo.refit_dual(K, y, i, mu), expected, rtol=1e-8, atol=1e-10)


def test_rkhs_refit_is_the_discriminant(loo):
    K, codes, y = ring(loo, 24)
    kept = np.delete(np.arange(24), 3)
    model = KernelFDA(kernel="precomputed", reg=Ridge(0.4))
    model.fit(K[np.ix_(kept, kept)], codes[kept])
    expected = model.decision_function(K[:, kept])
    found = loo.refit_rkhs(K, y, 3, 0.4)
    # Regression and discriminant are the same but for scale and offset.
    slope, offset = np.polyfit(found, expected, 1)
    assert slope > 0
    assert_allclose(slope * found + offset, expected, rtol=0, atol=1e-12)


def test_closed_form_is_exact_but_for_the_basis(loo):
    K, codes, y = ring(loo, 30)
    exact, wrong = loo.refitted(loo.refit_rkhs, K, codes, 1.0)
    assert_allclose(loo.closed_form(K, y, 1.0), exact, rtol=0, atol=1e-11)
    assert loo.leave_one_out(K, codes, 1.0) == pytest.approx(wrong, rel=0, abs=1e-12)
    closed = loo.closed_form(K @ K.T, y, 1.0)

    def same_basis(*args):
        return loo.refit_dual(*args, keep_basis=True)

    kept, wrong = loo.refitted(same_basis, K, codes, 1.0)
    assert_allclose(closed, kept, rtol=0, atol=1e-10)
    error = loo.leave_one_out(K @ K.T, codes, 1.0)
    assert error == pytest.approx(wrong, rel=0, abs=1e-12)
    refitted, _ = loo.refitted(loo.refit_dual, K, codes, 1.0)
    assert 1e-5 < loo.relative_error(closed, refitted) < 0.1
    assert loo.relative_error(np.array([1.0, 2.0]), np.array([1.0, 4.0])) == 4 / 17


def test_annulus_is_as_published(loo):
    X, codes = loo.annulus(20_000, np.random.default_rng(0))
    assert codes.mean() == 0.75
    radius = np.linalg.norm(X[codes == 1], axis=1)
    assert_allclose(X[codes == 0].std(axis=0), 1, rtol=0, atol=0.05)
    assert_allclose([radius.mean(), radius.std()], [4, 1], rtol=0, atol=0.05)
    assert_allclose(X.mean(axis=0), 0, rtol=0, atol=0.1)


def test_ringnorm_is_as_published(loo):
    X, codes = loo.ringnorm(20_000, np.random.default_rng(0))
    assert X.shape == (20_000, 20)
    assert codes.mean() == 0.5
    for code, mean, std in ((0, 0, 2), (1, 2 / np.sqrt(20), 1)):
        assert_allclose(X[codes == code].mean(axis=0), mean, rtol=0, atol=0.08)
        assert_allclose(X[codes == code].std(axis=0), std, rtol=0, atol=0.08)


def test_banana_has_unit_variance_and_about_a_tenth_of_errors(loo):
    train, test = (loo.banana(n, np.random.default_rng(n)) for n in (400, 4000))
    assert_allclose(test[0].mean(axis=0), 0, rtol=0, atol=0.1)
    assert_allclose(test[0].std(axis=0), 1, rtol=0, atol=0.05)
    assert 0.07 < loo.error_of_kfda(*train, *test, 0.5, 1.0) < 0.13


@pytest.mark.parametrize("seed", range(2))
def test_ridge_path_is_leave_one_out_by_refitting(loo, seed):
    X, codes = loo.banana(30, np.random.default_rng(seed))
    K, y = RBF(2.0)(X), 2.0 * codes - 1
    penalties = np.logspace(-2, 2, 12)
    losses = []
    for penalty in penalties:
        residuals = []
        for i in range(30):
            kept = np.delete(np.arange(30), i)
            A = K[np.ix_(kept, kept)] + penalty * np.eye(29)
            residuals.append(y[i] - K[i, kept] @ np.linalg.solve(A, y[kept]))
        losses.append(np.sum(np.square(residuals)))
    best = penalties[np.argmin(losses)]
    alpha, found = loo.ridge_path(K, y, penalties)
    assert found == best
    expected = np.linalg.solve(K + best * np.eye(30), y)
    assert_allclose(alpha, expected, rtol=0, atol=1e-10)


def test_refitting_chooses_the_fewest_errors(loo, monkeypatch):
    X, codes = loo.banana(60, np.random.default_rng(0))
    sizes = loo.Sizes(widths=(0.3, 1.0, 3.0), penalties=(0.1, 1.0, 10.0))

    def right_for(trace, penalty):
        """Make one candidate right everywhere, and all others wrong."""

        def predict(K, codes, train, test, c, solve):
            assert solve is loo.by_inverse
            is_right = np.isclose(K.sum(), trace) and c == penalty
            return codes[test] if is_right else 1 - codes[test]

        return predict

    choose, _ = loo.WAYS["10-fold, refitting as the lab"]
    for width in sizes.widths:
        total = RBF(loo.gamma_of(width))(X).sum()
        monkeypatch.setattr(loo, "ridge_predict", right_for(total, 1.0))
        assert choose(X, codes, sizes) == (width, 1.0)
    monkeypatch.setattr(loo, "ridge_predict", right_for(0, 0))  # none
    assert choose(X, codes, sizes) == (3.0, 10.0)


def test_ridge_without_intercept_is_the_textbook(loo):
    rng = np.random.default_rng(0)
    (X, codes), (X_test, codes_test) = loo.banana(40, rng), loo.banana(300, rng)
    K, K_test = RBF(2.0)(X), RBF(2.0)(X_test, X)
    f = K_test @ np.linalg.solve(K + 0.5 * np.eye(40), 2.0 * codes - 1)
    expected = np.mean((f > 0) != codes_test)
    found = loo.error_of_ridge(X, codes, X_test, codes_test, 0.5, 0.5)
    assert 0 < expected < 0.3
    assert found == pytest.approx(expected, rel=0, abs=1e-12)


# ------------------------------------------------- ways to choose the penalty


def test_penalty_writes_its_tables(penalty, tmp_path, monkeypatch):
    cases = (
        penalty.Case("plain", 40, 5, 2.0),
        penalty.Case("runs", 48, 8, 2.0, n_runs=4, block=3),
    )
    monkeypatch.setattr(penalty, "CASES", cases)
    monkeypatch.setattr(penalty, "BROAD", penalty.BROAD[:1])
    monkeypatch.setattr(penalty, "TIMED", penalty.Case("", 40, 6, 1.2))
    monkeypatch.setattr(penalty, "GRID", [1.0, 0.1])
    monkeypatch.setattr(penalty, "INNER", penalty.KFold(2))
    monkeypatch.setattr(penalty, "N_PERMUTATIONS", 3)
    monkeypatch.setattr(penalty, "RESULTS", None)  # is not to be written
    path = tmp_path / "results.rst"
    penalty.main(["--quick", "--out", str(path)])
    (usual, broad, seconds), _ = read_tables(path)
    assert [row[0].split(";")[0] for row in usual] == ["Data", "plain", "runs"]
    for row in usual[1:] + broad[1:]:
        assert len(row) == 2 + len(penalty.WAYS)
        assert all(40 < float(cell.split(" ")[0]) <= 100 for cell in row[1:-1])
    assert [row[2] == "" for row in seconds[1:]].count(True) == 2
    assert sum("3 permutations" in row[0] for row in seconds) == 4


def test_wrong_penalty_is_found_out(penalty, monkeypatch):
    monkeypatch.setattr(penalty, "GRID", [1e5, 1.0, 1e-5])
    X, y, _ = penalty.Case("", 100, 40, 3.0, noise="sources").draw(1)
    penalty.check_equal(X, y)
    real = penalty.cross_validate

    def other(X, y, reg, **options):
        return real(X, y, reg=penalty.Ridge(1e5), **options)

    monkeypatch.setattr(penalty, "cross_validate", other)
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        penalty.check_equal(X, y)


def test_runs_hold_blocks_of_all_classes(penalty):
    for case in penalty.CASES + penalty.BROAD:
        X, y, groups = case.draw(0)
        assert X.shape == (case.n, case.p)
        counts = np.bincount(y)
        assert len(counts) == case.n_classes
        assert np.ptp(counts / np.r_[case.ratio, [1] * (len(counts) - 1)]) <= len(
            counts
        )
        if groups is not None:
            for run in range(case.n_runs):
                blocks = y[groups == run].reshape(-1, case.block)
                assert_array_equal(blocks, np.repeat(blocks[:, :1], case.block, 1))


def test_effects_lie_where_they_are_said_to(penalty):
    def between(where):
        case = penalty.broad("", 9.0, n=4000, p=12, where=where)
        X, y, _ = case.draw(0)
        means = [X[y == k].mean(axis=0) for k in (0, 1)]
        sizes, axes = np.linalg.eigh(np.cov(X[y == 0].T))
        return means[1] - means[0], axes.T @ (means[1] - means[0]) / np.sqrt(sizes)

    by_feature, _ = between("three features")
    assert np.abs(by_feature[3:]).max() < 0.2 < 2 < np.abs(by_feature[:3]).max()
    _, by_axis = between("where noise is largest")  # the largest are the last
    assert np.abs(by_axis[:7]).max() < 0.5 < 2 < np.abs(by_axis[7:]).max()


def test_runs_are_standardised_by_themselves(penalty):
    X = np.random.default_rng(0).normal(3, 2, size=(60, 4))
    X[:, 3] = 5.0
    found = penalty.standard(X, np.repeat([1, 2, 3], 20))
    for rows in found[:, :3].reshape(3, 20, 3):
        assert_allclose(rows.mean(axis=0), 0, rtol=0, atol=1e-12)
        assert_allclose(rows.std(axis=0), 1, rtol=1e-12, atol=0)
    assert_allclose(found[:, 3], 0, rtol=0, atol=1e-12)
    assert X[0, 3] == 5.0


# ------------------------------------------------------------- calibration and power


class TestCalibration:
    """The simulations of the calibration of all tests; their results are slow tests."""

    @pytest.mark.slow
    def test_writes_its_tables(self, calibration, tmp_path, monkeypatch):
        tests = dict(calibration.studies.TESTS)
        del tests["paired, sign-flip"]  # takes as long as all others
        monkeypatch.setattr(calibration.studies, "TESTS", tests)
        monkeypatch.setattr(calibration, "RESULTS", None)  # is not to be written
        path = tmp_path / "results.rst"
        calibration.main(["--quick", "--out", str(path)])
        tables, _ = read_tables(path)
        columns = [table[0][1:] for table in tables]
        group = [*tests]
        group.insert(1, "majority null")
        fewer = [name for name in group if name != "sign-flip"]
        in_voxels = ["prevalence", "majority null", "bootstrap", "sign-flip", "t"]
        assert columns[2:6] == [group, fewer, in_voxels, group]
        n_rows = [len(table) - 1 for table in tables[:-2]]
        n_foldwise = len(calibration.studies.FOLDWISE | calibration.studies.CROSSED)
        assert n_rows == [10, 9, 11, 11, 9, 10, 6, 6, 3, 10, 9, n_foldwise, 5, 5]
        spreads = calibration.studies.SPREADS
        latencies = [
            f"{name}, SD {spread:g} s"
            for spread in spreads
            for name in ("onset", "peak")
        ]
        assert [row[0] for row in tables[-2]] == ["Latency", *latencies]
        for table in tables[:-2]:
            cells = [cell for row in table[1:] for cell in row[1:] if cell]
            shares = " / ".join(cell.rstrip(" ↑↓") for cell in cells).split(" / ")
            assert len(shares) >= 3
            assert all(0 <= float(share) <= 100 for share in shares)
        for row in tables[-1][1:]:
            assert_allclose([float(cell) for cell in row[1:3]], 0.5, rtol=0, atol=0.08)

    def test_marks_what_is_outside_of_sampling_error(self, calibration):
        # Of 1000 data sets 33 to 69 may be significant.
        assert_allclose(calibration.interval(1000), [0.033, 0.069], rtol=0, atol=1e-12)
        cells = {32: "3.2 ↓", 33: "3.3", 69: "6.9", 70: "7.0 ↑"}
        for n, words in cells.items():
            rates = np.repeat([1.0, 0.0], [n, 1000 - n])
            assert calibration.percent(rates) == words
            assert calibration.percent(rates, marked=False) == words.split(" ")[0]

    def test_noise_lasts_and_the_effect_is_where_it_should_be(self, calibration):
        studies = calibration.studies
        sides = [studies.draw(0, i, front=4.0) for i in range(200)]
        front, back = np.swapaxes(sides, 0, 1)  # (200, 40, sensors, times)
        noise = back.reshape(-1, studies.N_TIMES)
        assert_allclose(noise.std(axis=0), 1, rtol=0, atol=0.03)
        lagged = np.mean(noise[:, 1:] * noise[:, :-1], axis=0)
        assert_allclose(lagged, studies.LASTING, rtol=0, atol=0.03)
        means = [
            side[:, studies.Y == k].mean(axis=1)
            for side in (front, back)
            for k in (0, 1)
        ]
        sizes = [
            np.linalg.norm(means[k + 1] - means[k], axis=1).mean(axis=0) for k in (0, 2)
        ]
        has = np.zeros(studies.N_TIMES)
        has[studies.EFFECT] = 4.0
        # Means of 20 trials differ by sqrt(6 / 10) where there is no effect.
        by_chance = np.sqrt(0.6 + has**2)
        assert_allclose(sizes[0], by_chance, rtol=0, atol=0.1)
        assert_allclose(sizes[1], np.sqrt(0.6), rtol=0, atol=0.1)

    def test_counts_what_is_significant(self, calibration):
        p = {"none": [0.05, 0.2, 0.01, 0.6], "max": [0.06, 0.5, 0.051, 0.9]}
        result = SimpleNamespace(pvalues=p.__getitem__)
        found = calibration.studies.significant(result, list(p))
        assert found == {"none": 0.5, "none, any position": True, "max": False}
        found = calibration.studies.significant(result, ["none"], slice(2, 3))
        assert found == {"none": 1.0}


class TestFolds:
    """The simulations of folds in noise that lasts; their results are slow tests."""

    @pytest.mark.slow
    def test_writes_its_tables(self, lasting, tmp_path, monkeypatch):
        monkeypatch.setattr(lasting, "NOISES", {"AR .7": lasting.NOISES["AR .7"]})
        monkeypatch.setattr(lasting, "N_SUBJECTS", 6)
        path = tmp_path / "results.rst"
        lasting.main(["--quick", "--out", str(path)])
        (*noises, power), _ = read_tables(path)
        assert len(noises) == len(lasting.DESIGNS) + 7
        for _, row in noises:
            shares = [float(cell.rstrip(" ↑↓")) for cell in row[1:]]
            assert len(shares) == 6
            assert set(shares) <= {0.0, 50.0, 100.0}
        assert [row[0] for row in power[1:]] == [
            "10 folds of neighbours",
            "stratified, kept",
        ]

    def test_noise_lasts_and_drifts(self, lasting):
        rng = np.random.default_rng(0)
        long = lasting.lasting(rng, 0.9, n=100_000)
        assert_allclose(
            np.mean(long[1:] * long[:-1]) / long.var(), 0.9, rtol=0, atol=0.01
        )
        first, *_, last = lasting.drifting(rng, 300.0)
        assert_allclose(np.abs(last - first).mean(), 300, rtol=0.01, atol=0)


class TestGroup:
    """Speed and memory of group inference."""

    def test_writes_its_table(self, speed, monkeypatch, tmp_path):
        def run_here(command, **_):
            with redirect_stdout(io.StringIO()) as said, monkeypatch.context() as patch:
                patch.setattr("sys.argv", command[1:])
                speed.main()
            return SimpleNamespace(stdout=said.getvalue())

        # Otherwise of a process each.
        monkeypatch.setattr(speed.subprocess, "run", run_here)
        monkeypatch.setattr(speed, "CASES", speed.CASES[:1])
        monkeypatch.setattr(speed, "QUICK_BOX", (5, 4, 3))
        monkeypatch.setattr(speed, "FLIPPED", ("cluster",))
        path = tmp_path / "results.rst"
        monkeypatch.setattr("sys.argv", ["bench_group", "--quick", "--out", str(path)])
        speed.main()
        (rows,), _ = read_tables(path)
        first_words = [row[0].split()[0] for row in rows[1:]]
        assert first_words == ["20", "20", "20", *["One"] * 10]
        assert "999 second-level permutations, prevalence" in rows[1][0]
        assert all(float(row[3].split()[0]) >= 0 for row in rows[1:])

    def test_scores_are_smooth_accuracies(self, speed):
        result = speed.make_result(0, 50, speed.QUICK_BOX)
        null = result.null.reshape(-1, *speed.QUICK_BOX)
        assert_allclose(null.mean(), 0.5, rtol=0, atol=0.01)
        assert_allclose(null.std(), 0.5 / np.sqrt(speed.N_TRIALS), rtol=0.05, atol=0)
        pairs = null[:, 1:].ravel(), null[:, :-1].ravel()
        assert np.corrcoef(*pairs)[0, 1] > 0.5
        assert_array_equal(np.rint(null * speed.N_TRIALS) / speed.N_TRIALS, null)


class TestPeople:
    """Claims about people; their results are slow tests of `test_prevalence`."""

    def test_writes_its_tables(self, people, tmp_path, monkeypatch):
        for name in ("N_DRAWN", "draw_signs", "draw_labels"):  # put back afterwards
            drawn = getattr(people.exchange, name)
            monkeypatch.setattr(people.exchange, name, drawn)
        monkeypatch.setattr(people.studies, "OF_INTERVALS", (6,))
        path = tmp_path / "results.rst"
        people.main(["--quick", "--out", str(path)])
        tables, _ = read_tables(path)
        assert [len(table) - 1 for table in tables] == [8, 8, 6, 18, 8, 8]
        for table in tables[4:]:
            for row in table[1:]:
                held, low, high = map(float, row[2:5])
                assert_allclose(held + low + high, 100, rtol=0, atol=0.2)


# -------------------------------------------------------------------------- few images


def test_few_images_writes_its_tables(few, tmp_path, monkeypatch):
    for words, (_, n_classes, _, effect) in few.DESIGNS.items():
        monkeypatch.setitem(few.DESIGNS, words, (4, n_classes, 8, effect))
    X, y, run = few.simulate((4, 2, 8, 50.0), (0, 0), np.random.default_rng(0))
    path = tmp_path / "hands.npz"
    np.savez(path, hand_X=X, hand_y=y, hand_run=run)
    out = tmp_path / "results.rst"
    few.main(["--quick", "--out", str(out), "--recordings", str(path)])
    accuracy, alarms, seconds = read_tables(out)[0]
    assert len(accuracy) == 1 + 2 * (len(few.DESIGNS) + 1)
    assert accuracy[-2] == ["hand, raw", *["1.000"] * 4]
    assert [row[0] for row in alarms[1:]] == list(few.NOISE)
    assert all(row[-1].endswith(" s") for row in seconds[1:])


# ------------------------------------------------------------------- ratios of times


#: Scripts with --check: all but those whose tables state no ratios.
CHECKED = {path.stem.removeprefix("bench_") for path in FOLDER.glob("bench_*.py")}
#: Those that count errors have no ratios; MNE-Python takes minutes for one of TFCE.
UNTIMED = {"calibration", "depth", "discoveries", "few_images", "folds", "orders"}
UNTIMED |= {"people", "tfce"}
CHECKED = sorted(CHECKED - UNTIMED)


class TestRatios:
    """What --check compares, and when it fails."""

    @pytest.fixture
    def table(self, tmp_path):
        path = tmp_path / "results.rst"
        tables = [
            [
                ("Problem", "mvpa_kfda", "Against", "Ratio"),
                ("a", "1 s", "other: 2 s", "0.5 of its time"),
                ("b", "1 s", "slow: 10 s", "10 times faster"),
                ("b", "1 s", "quick: 4 s", "4.0 times as fast"),
                ("c", "1 s", "", ""),
            ],
            [
                ("Data", "Faster than LDA", "Of another's"),
                ("a", "2,500 (5 s \\*)", "2.5e+02 times"),
            ],
        ]
        list_table = import_module("bench_paper").list_table
        lines = [line for head, *rows in tables for line in list_table(head, rows)]
        path.write_text("\n".join(["Text - with a dash.", "", *lines]))
        return path

    def test_reads_what_is_stated(self, ratios, table):
        for problem, options, stated in (
            ("a", {}, 0.5),
            ("b", {"against": "slow"}, 0.1),
            ("b", {"against": "quick"}, 0.25),
            ("a", {"column": "Faster than LDA"}, 1 / 2500),
            ("a", {"column": "Of another's"}, 250),
        ):
            case = ratios.Case(problem, None, None, **options)
            assert_allclose(ratios.read_stated(table, case), stated, rtol=1e-12)

    def test_one_row_has_to_state_it(self, ratios, table):
        for case, message in (
            (("b",), "has 2 rows of 'b | Ratio'"),
            (("a", None, None, "quick"), "has 0 rows of 'a | quick | Ratio'"),
            (("c",), "states no ratio for 'c | Ratio'"),
        ):
            case = ratios.Case(*case, *[None] * (3 - len(case)))
            with pytest.raises(ValueError, match=re.escape(message)):
                ratios.read_stated(table, case)

    def test_reads_all_tables(self, ratios):
        for path in sorted(FOLDER.glob("results_*.rst"))[::3]:
            text = path.read_text("utf-8")
            found = ratios.read_tables(re.sub(r"``|\\(?=\*)", "", text))
            # But for first cells: those that begin with (a) are lists to docutils.
            cells, expected = (
                [[row[1:] for row in table] for table in tables]
                for tables in (found, read_tables(path)[0])
            )
            assert cells == expected

    @pytest.mark.parametrize(
        ("seconds", "failures"),
        [
            ((0.66,), 0),
            ((0.67, 0.7, 0.67, 0.66), 0),
            ((9.0, 0.67, 0.7, 0.67), 1),
        ],
    )
    def test_fails_a_third_behind_again_and_again(
        self, ratios, table, seconds, failures, monkeypatch, capsys
    ):
        measured = iter(seconds)
        monkeypatch.setattr(ratios, "measure", lambda *_: next(measured))
        case = ratios.Case("a", None, None)
        assert ratios.check(table, [case]) == failures
        assert capsys.readouterr().out.startswith("FAILS" if failures else "holds")
        assert list(measured) == []
        with pytest.raises(SystemExit, match="that fail: [1-9]" if failures else "^0$"):
            ratios.end(failures)

    def test_takes_the_fastest_runs_in_turn(self, ratios, monkeypatch):
        calls, clock = [], [0.0]
        # A turn of ours is two runs long, as one does not fill it.
        lasting = {"ours": iter([0.125, 3.0, 0.0625, 2.0]), "theirs": iter([8.0, 10.0])}

        def side(name):
            def run():
                calls.append(name)
                clock[0] += next(lasting[name])

            return run

        monkeypatch.setattr(ratios.time, "process_time", lambda: clock[0])
        case = ratios.Case("a", side("ours"), side("theirs"), times=5)
        assert_allclose(ratios.measure(case, 2), 0.0625 / (8 * 5), rtol=1e-12)
        assert calls == ["ours", "ours", "theirs"] * 2

    def test_memory_is_told_by_the_sides(self, ratios):
        case = ratios.Case("a", lambda: 3.0, lambda: 12.0, measured=ratios.told)
        assert ratios.measure(case, 1) == 0.25

    def test_measures_with_one_thread(self, ratios, table, monkeypatch):
        threads = []

        def measure(*args):
            threads.extend(pool["num_threads"] for pool in threadpool_info())
            return 0.5

        monkeypatch.setattr(ratios, "measure", measure)
        with threadpool_limits(2):
            ratios.check(table, [ratios.Case("a", None, None)])
        assert set(threads) == {1}

    @pytest.mark.parametrize("name", CHECKED)
    def test_cases_are_rows_of_the_tables(self, ratios, name, monkeypatch):
        script = import_module(f"bench_{name}")
        if name == "betas":
            monkeypatch.setattr(script, "make_run", lambda box: (None, None, None))
        if name == "group":
            small = script.make_result(0, 1, script.BOX)
            monkeypatch.setattr(script, "make_result", lambda *_: small)
        cases = script.quick_cases()
        assert cases
        for case in cases:
            assert 0 < ratios.read_stated(script.RESULTS, case) < 40

    def test_scripts_end_with_what_fails(self, ratios, monkeypatch, capsys):
        cases = [ratios.Case("a", lambda: 2.0, lambda: 1.0, measured=ratios.told)]
        monkeypatch.setattr(ratios, "read_stated", lambda path, case: 1.0)
        for name in CHECKED:
            script = import_module(f"bench_{name}")
            monkeypatch.setattr(script, "quick_cases", lambda: cases)
            monkeypatch.setattr("sys.argv", [f"bench_{name}", "--check"])
            with pytest.raises(SystemExit, match="Ratios that fail: 1"):
                script.main()
            assert capsys.readouterr().out.startswith("FAILS: a | Ratio: 2 of")


# ----------------------------------------------------------------------- single trials


def test_betas_writes_its_table(betas, tmp_path, monkeypatch):
    monkeypatch.setattr(betas, "N_TRIALS", 12)
    monkeypatch.setattr(betas, "N_SCANS", 80)
    path = tmp_path / "results.rst"
    betas.main(["--quick", "--out", str(path)])
    (rows,), _ = read_tables(path)
    cases = [tuple(row[0].split(", ")[-2:]) for row in rows[1:]]
    assert cases == list(betas.CASES)
    assert all(float(row[3].split(" ")[0]) > 0 for row in rows[1:])


def test_wrong_estimates_are_found_out(betas, monkeypatch):
    real = betas.single_trial_betas

    def other(run, events, **options):
        return real(run, events, **options | {"high_pass": 0.02})

    monkeypatch.setattr(betas, "single_trial_betas", other)
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        betas.measure([], betas.QUICK_BOX)


# -------------------------------------------------------------- steps of every fold


class TestPreprocess:
    """What steps learned in every fold cost."""

    def test_writes_its_table(self, steps, monkeypatch, tmp_path):
        monkeypatch.setattr(steps, "SHAPES", {"words, 4 folds": (40, 6, 2, 4)})
        monkeypatch.setattr(steps, "RESULTS", None)  # is not to be written
        for name in ("n_permutations", "n_refitted", "n_times", "runs"):
            monkeypatch.setattr(steps.Sizes, name, 1)
        path = tmp_path / "results.rst"
        steps.main(["--parts", "a", "b", "d", "--out", str(path)])
        (rows,), _ = read_tables(path)
        against = [row[2].split(":")[0].split(",")[0] for row in rows[1:]]
        assert against[:5] == ["without"] * 5
        assert against[5:7] == ["4 ordinary folds"] * 2
        assert against[7:] == ["permutation_test_score"] * 2
        assert all(float(row[3].split()[0]) >= 0 for row in rows[1:])

    def test_other_predictions_are_found_out(self, steps, monkeypatch):
        shape = (40, 6, 2, 4)
        steps.check_equal(shape)
        monkeypatch.setitem(steps.STEPS, "zscore", steps.PCA(2))
        with pytest.raises(AssertionError, match="Arrays are not equal"):
            steps.check_equal(shape)


# ----------------------------------------------------------------- repeated procedures


class TestRepeats:
    """Calibration and speed of procedures that are repeated."""

    def test_writes_its_tables(self, repeats, tmp_path, monkeypatch):
        monkeypatch.setattr(repeats, "N_PERMUTATIONS", 4)
        repeats.main(["--quick", "--out", str(tmp_path)])
        (true, short), _ = read_tables(tmp_path / "results_repeats.rst")
        assert [row[0] for row in true[1:]] == [case.words for case in repeats.cases()]
        assert [row[0] for row in short[1:]] == [f"k = 4, r = {r}" for r in (1, 10, 50)]
        for row in [*true[1:], *short[1:]]:
            assert all(0 <= float(cell.rstrip(" ↑↓")) <= 100 for cell in row[1:])
        # What both nulls are of, and how the single grouping's agree.
        assert [row[3] for row in short] == [row[3] for row in true[:4]]
        (rows,), _ = read_tables(tmp_path / "results_repeats_speed.rst")
        assert [row[0].rpartition(", ")[2] for row in rows[1:]] == [
            "no permutations",
            "2 permutations",
            "5 permutations",
            "each further permutation",
        ]
        # Of a short time the ratio may be rounded to none; the last one follows from
        # the times of others, and may be anything on a busy machine.
        ratios = [float(row[3].split()[0]) for row in rows[1:4]]
        assert min(ratios[:2]) >= 0

    def test_counts_ties(self, repeats):
        nulls = [[0.5] * 19, [*[0.4] * 18, 0.5], [*[0.4] * 18, 0.6], [0.4] * 19]
        found = repeats.Found()
        found.add([0.5] * 4, np.transpose(nulls))
        assert_array_equal(found.hits, [False, False, False, True])
        assert_allclose(found.hits_of_ties, [0.05, 0.5, 0, 1], rtol=0, atol=1e-12)

    def test_neighbours_resemble_each_other_in_runs(self, repeats):
        case = repeats.Case("", {}, lasting=0.8)
        X = np.concatenate([case.draw(i)[0] for i in range(60)], axis=1)
        assert_allclose(X.std(), 1, rtol=0, atol=0.03)
        lagged = np.mean(X[1:] * X[:-1], axis=(1, 2))
        expected = np.full(47, 0.8)
        expected[[15, 31]] = 0  # the last trials of runs
        assert_allclose(lagged, expected, rtol=0, atol=0.12)

    def test_loop_groups_and_decodes(self, repeats):
        y = np.arange(30) % 2
        X = np.random.default_rng(0).standard_normal((30, 3, 2))
        X[:, 0, 1] += 9 * y
        noise, decoded = repeats.lda_loop(X, y, 20, 2)
        assert decoded == 1.0
        assert 0.2 < noise < 0.8

    @pytest.mark.slow
    def test_shuffling_labels_of_averages_is_liberal(self, repeats, monkeypatch):
        case = next(case for case in repeats.cases() if case.words == "k = 4, r = 50")
        monkeypatch.setattr(repeats, "cases", lambda: [case])
        true, short = (found[case.words] for found in repeats.study(300))
        low, high = repeats.interval(300)
        assert low <= np.mean(true.hits) <= high
        assert np.mean(short.hits) > 0.25
        assert 0.9 < true.width / true.spread < 1.1
        assert short.width < 0.25 * true.width
        assert_array_equal(short.scores, true.scores)


# ------------------------------------------------------------- dissimilarity matrices


@pytest.mark.filterwarnings("ignore:No test set holds both")
@pytest.mark.filterwarnings("ignore:.* of a trial")
@pytest.mark.slow
def test_rdm_writes_its_table(rdm, tmp_path, monkeypatch):
    path = tmp_path / "results_rdm.rst"
    small = rdm.make_trials(4, 10, 3, 2)
    monkeypatch.setattr(rdm, "RESULTS", path)
    monkeypatch.setattr(rdm, "make_trials", lambda: small)
    arguments = ["--runs", "1", "--pairs", "2", "--side", "12"]
    monkeypatch.setattr("sys.argv", ["bench_rdm.py", *arguments])
    rdm.main()
    (rows,), _ = read_tables(path)
    (stated,), _ = read_tables(FOLDER / "results_rdm.rst")
    assert [row[0][:15] for row in rows] == [row[0][:15] for row in stated]
    assert all(float(row[3].split(" ")[0].replace(",", "")) >= 0 for row in rows[1:])
    assert any(" 64 spheres of 257 voxels" in row[0] for row in rows)


def test_both_sides_of_the_ratio_have_the_same_folds(rdm):
    X, y = rdm.make_trials(4, 10, 3, 2)
    one, other = (rdm.decode(X, y, scoring) for scoring in (rdm.TABLES, "accuracy"))
    assert_array_equal(one.predicted, other.predicted)
    assert one.rdm().shape == (2, 6)


# -------------------------------------------------------------------- true discoveries


def test_coverage_of_true_discoveries_writes_its_section(
    discoveries, tmp_path, monkeypatch
):
    monkeypatch.setattr(discoveries, "study", cache(discoveries.study))
    for name in ("SUBJECTS", "GROUPS"):
        monkeypatch.setattr(discoveries, name, getattr(discoveries, name)[:2])
    path = tmp_path / "results.rst"
    path.write_text("Other claims\n~~~~~~~~~~~~\n\nKept.\n")
    for _ in range(2):  # the second time in the place of the first
        discoveries.main(["--quick", "--out", str(path)])
    text = path.read_text("utf-8")
    assert text.startswith("Other claims\n~~~~~~~~~~~~\n\nKept.\n")
    assert text.count(discoveries.HEADING) == 1
    tables, _ = read_tables(path)
    designs = [discoveries.SUBJECTS, discoveries.GROUPS]
    for table, of_table in zip(tables, designs, strict=True):
        assert [row[0] for row in table[1:]] == [design.name for design in of_table]
        for row in table[1:]:
            assert 0 <= float(row[1].rstrip(" ↑↓")) <= 100


def test_orders_are_drawn_without_regard_to_the_noise(orders):
    """Each order has all classes, and what is found is of every scheme and metric."""
    rng = np.random.default_rng(0)
    for order in orders.ORDERS:
        for c, n_runs in ((2, 6), (3, 1)):
            y, runs, X = orders.draw(order, c, n_runs, rng)
            assert set(y) == set(range(c))
            assert X.shape == (orders.N_TRIALS, orders.N_FEATURES, len(orders.TIMES))
            assert len(np.unique(runs)) == n_runs
    repeats, n = orders.ORDERS["repeats at .7"](rng, 4000, 2, None), 4000
    assert abs((repeats[1:] == repeats[:-1]).mean() - 0.7) < 4 * np.sqrt(0.21 / n)
    rising = orders.ORDERS["share rises in runs"](rng, n, 2, np.linspace(0, 1, n))
    assert_allclose(rising.reshape(2, -1).mean(axis=1), [0.4, 0.6], rtol=0, atol=0.05)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = orders.significant("repeats at .7", 2, 6, 0)
    assert len(found) == 3 * 5 * 2 * 3
