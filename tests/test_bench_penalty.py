"""The benchmark of ways to choose the penalty: its data, and a small run of it."""

from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from docutils import nodes
from docutils.core import publish_doctree
from numpy.testing import assert_allclose, assert_array_equal

FOLDER = Path(__file__).parents[1] / "doc" / "benchmarks"


@pytest.fixture
def bench(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    return import_module("bench_penalty")


def test_writes_its_tables(bench, tmp_path, monkeypatch):
    cases = (
        bench.Case("plain", 40, 5, 2, 2.0),
        bench.Case("runs", 48, 8, 2, 2.0, False, 4, 3),
    )
    monkeypatch.setattr(bench, "CASES", cases)
    monkeypatch.setattr(bench, "LETTERS", "AB")
    monkeypatch.setattr(bench, "TIMED", bench.Case("", 40, 6, 2, 1.2))
    monkeypatch.setattr(bench, "GRID", np.array([10.0, 1.0]))
    monkeypatch.setattr(bench, "INNER", bench.KFold(4))
    monkeypatch.setattr(bench, "RESULTS", None)  # is not to be written
    path = tmp_path / "results.rst"
    bench.main(["--quick", "--out", str(path)])
    settings = {"halt_level": 2, "report_level": 2}
    document = publish_doctree(path.read_text("utf-8"), settings_overrides=settings)
    accuracy, seconds = (
        [[cell.astext() for cell in row.findall(nodes.entry)] for row in rows]
        for rows in (list(t.findall(nodes.row)) for t in document.findall(nodes.table))
    )
    assert accuracy[0] == ["Penalty", "A", "B"]
    assert len(accuracy) == 1 + len(bench.WAYS) + len(bench.OTHERS)
    for row in accuracy[1:]:
        assert all(40 < float(cell.split(" ")[0]) <= 100 for cell in row[1:])
    assert len(seconds) == 8


def test_wrong_penalty_is_found_out(bench, monkeypatch):
    monkeypatch.setattr(bench, "GRID", np.geomspace(1e5, 1e-3, 6))
    X, y, _ = bench.Case("", 100, 40, 2, 3.0, correlated=True).draw(1)
    bench.check_equal(X, y)
    real = bench.cross_validate

    def other(X, y, reg, cv):
        return real(X, y, reg=bench.Ridge(1e5), cv=cv)

    monkeypatch.setattr(bench, "cross_validate", other)
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        bench.check_equal(X, y)


def test_noise_lasts_and_keeps_its_variance(bench):
    noise = bench.last(np.random.default_rng(0).normal(size=(60, 4000)))
    assert_allclose(noise.std(axis=1), 1, rtol=0, atol=0.1)
    lagged = np.mean(noise[1:] * noise[:-1]) / np.mean(noise**2)
    assert_allclose(lagged, bench.LASTING, rtol=0, atol=0.02)


def test_runs_hold_blocks_of_all_classes(bench):
    for case in bench.CASES:
        X, y, groups = case.draw(0)
        assert X.shape == (case.n, case.p)
        counts = np.bincount(y)
        assert len(counts) == case.n_classes
        assert np.ptp(counts) <= case.n_classes
        if groups is not None:
            for run in range(case.n_runs):
                blocks = y[groups == run].reshape(-1, case.block)
                assert_array_equal(blocks, np.repeat(blocks[:, :1], case.block, 1))


def test_runs_are_standardised_by_themselves(bench):
    X = np.random.default_rng(0).normal(3, 2, size=(60, 4))
    X[:, 3] = 5.0
    found = bench.standard(X, np.repeat([1, 2, 3], 20))
    for rows in found[:, :3].reshape(3, 20, 3):
        assert_allclose(rows.mean(axis=0), 0, rtol=0, atol=1e-12)
        assert_allclose(rows.std(axis=0), 1, rtol=1e-12, atol=0)
    assert_allclose(found[:, 3], 0, rtol=0, atol=1e-12)
    assert X[0, 3] == 5.0
