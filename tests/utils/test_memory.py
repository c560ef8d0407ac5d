"""What does not fit into memory is refused before anything of its size is made."""

import itertools
import os
import tracemalloc

import numpy as np
import pytest
from joblib import parallel_config
from numpy.testing import assert_array_equal

from mvpa_kfda import (
    RBF,
    Nystrom,
    cross_validate,
    decode_arrays,
    decode_epochs,
    generalize_arrays,
    regress,
)
from mvpa_kfda.decoding.positions import FeaturePositions
from mvpa_kfda.group import latency, second_level
from mvpa_kfda.group.latency import draw_subjects
from mvpa_kfda.group.second_level import draw_recombinations
from mvpa_kfda.inference import exchange, permutation
from mvpa_kfda.inference.exchange import draw_labels, draw_signs
from mvpa_kfda.inference.permutation import Units, permute_labels
from mvpa_kfda.kfda.kernels import Linear
from mvpa_kfda.utils import memory, parallel
from mvpa_kfda.utils.memory import LazyRows, batches, check_memory, usable_memory
from tests import build

MACHINE = 4096 * 10**6
Y = np.arange(40) % 2
X = np.random.default_rng(0).normal(size=(40, 3, 5)) + Y[:, None, None]


@pytest.fixture
def has(monkeypatch):
    """Return a function that sets the memory there is."""
    return lambda size: monkeypatch.setattr(memory, "usable_memory", lambda: size)


@pytest.fixture
def groups(monkeypatch, tmp_path):
    """Return a function that says which control groups this process is in."""
    pages = {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 10**6}
    monkeypatch.setattr(os, "sysconf", pages.get, raising=False)
    own = tmp_path / "cgroup"
    monkeypatch.setattr(memory, "_OWN_GROUPS", own)
    monkeypatch.setattr(memory, "_GROUPS", tmp_path / "fs")
    return own.write_text


# -------------------------------------------------------------------- how much there is


def write(folder, name, text):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)


def test_limits_of_groups_and_of_those_above_them(groups, tmp_path, monkeypatch):
    assert usable_memory() == MACHINE  # no such file, as on macOS
    groups("0::/\n")
    assert usable_memory() == MACHINE
    groups("0::/slurm/job_7/step_0\n")
    job = tmp_path / "fs" / "slurm" / "job_7"
    write(job / "step_0", "memory.max", "max\n")
    assert usable_memory() == MACHINE
    write(job, "memory.max", "5000000\n")
    assert usable_memory() == 5_000_000
    write(job / "step_0", "memory.max", "4000000\n")
    assert usable_memory() == 4_000_000
    # The first version of groups.
    groups("9:name=systemd:/x\n4:cpu,memory:/docker/7\n0::/\n")
    root, name = tmp_path / "fs" / "memory", "memory.limit_in_bytes"
    write(root / "docker" / "7", name, f"{2**63 - 4096}\n")  # none
    assert usable_memory() == MACHINE
    write(root, name, "3000000\n")  # as a container sees its own group
    assert usable_memory() == 3_000_000
    monkeypatch.delattr(os, "sysconf")
    groups("")
    assert usable_memory() is None
    check_memory(10**30, "Everything", "less")


def test_the_refusal(has):
    has(2_000_000)
    check_memory(2_000_000, "A map", "less")
    message = (
        r"^A map needs 3 TB; this machine or job has 2 MB of memory\. Use fewer times "
        r"or null='max'\.$"
    )
    with pytest.raises(ValueError, match=message):
        check_memory(3e12, "A map", "fewer times or null='max'")


def test_rows_are_made_in_batches_when_they_are_read(monkeypatch):
    monkeypatch.setattr(memory, "_BATCH", 10)
    assert [*batches(5, 4)] == [slice(0, 2), slice(2, 4), slice(4, 5)]
    assert [*batches(2, 99)] == [slice(0, 1), slice(1, 2)]
    made = []

    def rows(part):
        made.append(part)
        return np.arange(12.0).reshape(6, 2)[part]

    lazy = LazyRows(6, (1, 2), float, rows)
    assert (len(lazy), lazy.shape, lazy.ndim, made) == (6, (6, 1, 2), 3, [])
    assert_array_equal(lazy[-2:], [[[8.0, 9.0]], [[10.0, 11.0]]])
    assert made == [slice(4, 6, 1)]


# ------------------------------------------------------------------------- permutations


@pytest.fixture
def no_draw(monkeypatch):
    """Nothing may be drawn."""
    for name in ("draw", "all"):
        monkeypatch.setattr(Units, name, lambda *_: pytest.fail("it has drawn"))


def test_sizes_are_measured_before_labels_are_drawn(no_draw, has):
    message = r"^To draw 10,000,000 permutations for 40 trials needs 1\.2 GB; .* 1 GB"
    flat, few = X[..., 0], [0, 1, 0, 1, 0, 1]
    for function, data in ((cross_validate, flat), (decode_arrays, X), (regress, flat)):
        has(10**9)
        with pytest.raises(ValueError, match=message):
            function(data, Y, n_permutations=10**7)
        if function is not regress:  # 6 arrangements in each of 10 folds
            has(10**8)
            within = r"To draw 60,466,175 p.* needs 7\.26 GB"
            with pytest.raises(ValueError, match=within):
                function(data, Y, n_permutations=10**12, permute="within_folds")
    has(8 * 1000 * 50 - 1)
    message = (
        r"^A map of 50 positions with 1000 permutations needs 400 kB; .* Use fewer "
        r"times \(step=, crop or decimate\) or fewer permutations\.$"
    )
    for task in ("classification", "regression"):
        with pytest.raises(ValueError, match=message):
            decode_arrays(np.tile(X, 10), Y, task=task, cv=4, n_permutations=1000)
    y = np.random.default_rng(1).normal(size=40)
    has(8 * 40 * 1000 - 1)
    with pytest.raises(ValueError, match=r"^To permute 40 values 1000 times needs 320"):
        regress(flat, y, n_permutations=1000)

    def check(n_permutations):
        raise ValueError(f"{n_permutations} are too many")

    for labels, number in ((Y, 50), (few, 19)):
        with pytest.raises(ValueError, match=rf"^{number} are too many"):
            permute_labels(labels, 50, folds=None, check=check)


def test_what_fits_is_drawn_and_few_arrangements_are_listed(has):
    has(3 * 100 * 40)
    assert permute_labels(Y, 100, folds=None).n_permutations == 100
    with pytest.raises(ValueError, match=r"To draw 101 permutations .* 12.1 kB"):
        permute_labels(Y, 101, folds=None)
    few = permute_labels([0, 1, 0, 1, 0, 1], 10**12, folds=None)
    assert few.n_permutations == 19


class Drawn(Exception):
    """Something has been drawn."""


class Undrawn:
    """A generator that tells when it begins to draw."""

    def multinomial(self, *_):
        raise Drawn("begun")


@pytest.mark.parametrize(
    "draw",
    [
        lambda n: permute_labels(np.arange(60) % 2, n, folds=None),
        lambda n: draw_signs(60, n),
        lambda n: draw_labels(40, 40, n),
        lambda n: draw_recombinations(np.full(20, 100), n),
        lambda n: draw_recombinations([1001, 1001], n),  # all there are
        lambda n: draw_subjects(Undrawn(), 20, n),
    ],
)
def test_too_many_are_refused_and_very_many_told_before(monkeypatch, has, draw):
    def begin(*shape):
        raise Drawn("begun")

    for module in (permutation, exchange, second_level, latency):
        monkeypatch.setattr(module, "batches", begin)
    message = r"^To draw 1,00\d,00\d .* takes long .*: 100 times .* with 10,000\."
    begun = pytest.raises(Drawn, match="begun")
    with pytest.warns(RuntimeWarning, match=message), begun:
        draw(1_002_000)
    # As many as the code of prevalence inference takes.
    with pytest.raises(Drawn, match="begun"):
        draw(1_000_000)
    has(10**6)
    with pytest.raises(ValueError, match=r"^To draw 1,00\d,00\d (perm|res).* 1 MB of"):
        draw(1_002_000)


@pytest.mark.parametrize("size", [1, 70, 10**6])
def test_parts_of_a_draw_are_those_of_one(monkeypatch, size):
    monkeypatch.setattr(memory, "_BATCH", size)
    codes = np.repeat([0, 1], 30)
    labels, rng = np.tile(codes, (99, 1)), np.random.default_rng(3)
    found = permute_labels(codes, 99, folds=None, random_state=3).labels
    np.testing.assert_array_equal(found[1:], rng.permuted(labels, axis=1))
    rng = np.random.default_rng(3)
    signs = rng.choice(np.array([1, -1]), (99, 40))  # all of them differ
    np.testing.assert_array_equal(draw_signs(40, 99, 3), signs)
    rng = np.random.default_rng(3)
    maps = rng.integers(0, [50, 7, 90], (99, 3), np.int32)
    np.testing.assert_array_equal(draw_recombinations([50, 7, 90], 99, 3), maps)
    counts = np.random.default_rng(3).multinomial(9, np.full(9, 1 / 9), 99)
    np.testing.assert_array_equal(
        draw_subjects(np.random.default_rng(3), 9, 99), counts
    )
    everything = draw_labels(3, 4, 10**6)
    assert len({row.tobytes() for row in everything}) == len(everything) == 34
    assert (everything.sum(axis=1) == 3).all()
    maps = [tuple(row) for row in draw_recombinations([2, 3, 2], 10**6)]
    assert maps == list(itertools.product(range(2), range(3), range(2)))[1:]


# ------------------------------------------------------------------------------ workers


def in_threads(*given, **options):
    with parallel_config(backend="threading"):
        return decode_arrays(*given, **options)


def test_workers_have_a_matrix_each(has, monkeypatch):
    monkeypatch.setattr(parallel, "cpu_count", lambda: 2)
    rbf, one = {"kernel": "rbf", "cv": 4}, 8 * 40**2
    cell = 40 + 8 * (1 + 4)  # predictions, scores of all trials and of each fold
    has(5 * cell + one)
    in_threads(X, Y, n_jobs=1, **rbf)
    with pytest.raises(
        ValueError,
        match=r"^A map of 5 times with 0 permutations and 2 workers needs 26 kB; .* "
        r"Use fewer times .* or fewer workers \(n_jobs\)\.$",
    ):
        in_threads(X, Y, n_jobs=2, **rbf)
    has(4 * cell + one)
    in_threads(X[..., :4], Y, n_jobs=2, **rbf)  # a single block
    has(5 * cell + one - 1)
    with pytest.raises(ValueError, match=r"^A map of 5 times .* needs 13.2 kB"):
        in_threads(X, Y, n_jobs=1, **rbf)
    in_threads(X, Y, n_jobs=2, cv=4)  # 3 features of 40 trials need no such matrix


def test_kernel_matrices_of_many_trials(has):
    many = np.zeros((100_000, 3))
    assert FeaturePositions(many, RBF(), 0.3).worker_bytes == 8 * 10**10
    assert FeaturePositions(many, Linear(), 0.3).worker_bytes == 0
    has(8 * 40**2)
    with pytest.raises(ValueError, match=r"^A map of 1 position .* Use fewer trials"):
        cross_validate(X[..., 0], Y, kernel="rbf")
    cross_validate(X[..., 0], Y, kernel="rbf", approx=Nystrom(10))


# ------------------------------------------------------------------------------- copies


def peak_of(function, data, y=Y, window=500):
    """Return a result, and the most memory that was taken beside the data."""
    tracemalloc.start()
    result = function(data, y, window=window, step=window)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return result, peak


@pytest.mark.parametrize(
    ("function", "dtype", "size"),
    [
        (decode_arrays, ">f4", 4),
        (decode_arrays, np.int16, 2),
        (generalize_arrays, np.float32, 8),
    ],
)
def test_data_are_copied_once(function, dtype, size):
    """In their own type, for pairs of times in double precision; numbers are equal."""
    rng = np.random.default_rng(0)
    data = (100 * rng.normal(size=(40, 60, 1500))).astype(dtype)
    function(data[..., ::150], Y)  # imports what it takes
    expected, of_doubles = peak_of(function, data.astype(float))
    found, peak = peak_of(function, data)
    assert peak - of_doubles < (size - 8 + 0.2) * data.size
    assert_array_equal(found.scores, expected.scores)
    assert found.inputs["data"] == expected.inputs["data"]
    assert_array_equal(
        found.inputs["projections"]["data"], expected.inputs["projections"]["data"]
    )


def test_epochs_are_copied_once():
    """Also where some of their channels are picked."""
    data = np.random.default_rng(0).normal(size=(40, 60, 1500))
    epochs = build.epochs(data, Y)
    decode_epochs(epochs.copy().crop(tmax=0.05))  # imports what it takes
    expected, of_all = peak_of(decode_epochs, epochs, None, 5.0)
    epochs = build.epochs(data[:, [*range(60), 0]], Y, types=["eeg"] * 60 + ["misc"])
    found, peak = peak_of(decode_epochs, epochs, None, 5.0)
    assert peak - of_all < 0.2 * 8 * data.size
    assert_array_equal(found.scores, expected.scores)
