"""A searchlight on a Dask cluster: the same result, whatever happens to its workers."""

import os
import re
import signal
import time

import numpy as np
import pytest
from joblib import parallel_config

from mvpa_kfda import searchlight
from mvpa_kfda.decoding import positions as subset_source
from mvpa_kfda.decoding import run as outcome
from mvpa_kfda.utils.checkpoint import Checkpoint
from tests.dask_cluster import two_workers

run_block = outcome._run_block


@pytest.fixture
def client():
    with two_workers() as client:
        yield client


@pytest.fixture
def compute(monkeypatch):
    """A map of 120 features in blocks of 4."""
    monkeypatch.setattr(subset_source, "_LONGEST", 4)
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 120)), np.tile([0, 1, 2], 20)
    near = np.abs(np.subtract.outer(np.arange(120), np.arange(120))) < 20

    def compute(**options):
        return searchlight(
            X,
            y,
            adjacency=near,
            scoring=["accuracy", "roc_auc"],
            n_permutations=30,
            random_state=0,
            **options,
        )

    return compute


def die_at_a_block(positions, task, block):
    if block[0] == 40:
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGKILL)
    return run_block(positions, task, block)


@pytest.mark.slow
def test_a_cluster_gives_the_same_result(client, compute):
    with parallel_config(backend="dask"):
        assert compute() == compute(n_jobs=1)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="not on Windows")
@pytest.mark.parametrize("with_checkpoint", [False, True])
def test_a_killed_worker_loses_nothing(
    client, compute, monkeypatch, tmp_path, with_checkpoint
):
    add, killed = outcome.MapStore.add, []

    def add_and_kill(gathered, block, part):
        if not killed:
            killed.append(next(iter(client.run(os.getpid).values())))
            os.kill(killed[0], signal.SIGKILL)
        add(gathered, block, part)

    expected = compute(n_jobs=1)
    monkeypatch.setattr(outcome.MapStore, "add", add_and_kill)
    path = tmp_path / "run" if with_checkpoint else None
    with parallel_config(backend="dask"):
        assert compute(checkpoint=path) == expected
    assert killed
    if with_checkpoint:
        assert compute(checkpoint=path) == expected


@pytest.mark.slow
def test_workers_that_are_lost_say_how_to_go_on(compute, monkeypatch, tmp_path):
    """Two workers of this machine, one of which is killed at its first block."""
    expected = compute(n_jobs=1)
    path = tmp_path / "run"
    words = (
        "A worker process was killed, .* Nothing of this run is kept; with "
        "checkpoint='run.checkpoint' finished blocks are, and the same call goes on"
    )
    with monkeypatch.context() as patch:
        patch.setattr(outcome, "_run_block", die_at_a_block)
        with pytest.raises(RuntimeError, match=words):
            compute(n_jobs=2)
        words = rf"{path} keeps the finished blocks of this run \((\d+)\); the same c"
        with pytest.raises(RuntimeError, match=words) as raised:
            compute(n_jobs=2, checkpoint=path)
    with Checkpoint(path) as kept:
        said = int(re.search(words, str(raised.value))[1])
        assert 0 <= said == len(kept.finished) < 30
    assert compute(n_jobs=1, checkpoint=path) == expected
