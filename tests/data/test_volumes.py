"""Searchlights and regions from images to results, against nilearn and the core."""

import os
import re
import signal
import time
import types
from functools import partial

import joblib
import nibabel
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import zscore
from sklearn.model_selection import KFold, LeaveOneGroupOut
from sklearn.preprocessing import FunctionTransformer

from mvpa_kfda import (
    Ridge,
    cross_validate,
    decode_regions,
    searchlight,
)
from mvpa_kfda.data.volumes import check_mesh
from mvpa_kfda.decoding import positions, run
from mvpa_kfda.utils.checkpoint import Checkpoint
from tests import build
from tests.dask_cluster import two_workers

AFFINE = np.array([[-3.0, 0, 0, 20], [0, 3, 0, -15], [0, 0, 4, 5], [0, 0, 0, 1]])
SHAPE = (5, 6, 4)
N, RUNS = 32, np.repeat(["a", "b", "c", "d"], 8)


def make_data(n_classes=2, seed=0, strength=1.5):
    """Images (x, y, z, n) whose class shows in one corner, and labels."""
    rng = np.random.default_rng(seed)
    codes = np.concatenate([rng.permutation(8) % n_classes for _ in range(4)])
    data = rng.normal(size=(*SHAPE, N)) + 100
    data[:3, :3, :2] += strength * rng.normal(size=(3, 3, 2, n_classes))[..., codes]
    return data, np.array(["cat", "dog", "eel", "fox"])[codes]


def image(data):
    return build.volume(np.moveaxis(data, -1, 0), AFFINE)


@pytest.fixture(scope="module")
def mask():
    mask = np.random.default_rng(1).random(SHAPE) < 0.8
    mask[1, 1, 1] = True
    return mask


@pytest.fixture(scope="module")
def imgs():
    return image(make_data()[0])


@pytest.fixture(scope="module")
def y():
    return make_data()[1]


OPTIONS = {"groups": RUNS, "radius": 4.5, "n_permutations": 40, "random_state": 0}
EVERYTHING = build.mask(np.ones(SHAPE), AFFINE)


def decode(imgs, y, mask, **options):
    return searchlight(imgs, y, mask_img=build.mask(mask, AFFINE), **OPTIONS | options)


@pytest.fixture(scope="module")
def result(imgs, y, mask):
    return decode(imgs, y, mask)


def sphere(mask, centre, radius, affine=AFFINE):
    """Voxels of a mask near a centre (voxel indices), by brute force."""
    voxels = np.argwhere(mask)
    away = (voxels - centre) @ affine[:3, :3].T
    return voxels[np.linalg.norm(away, axis=1) <= radius]


# ------------------------------------------------------------ what others would compute


def test_each_sphere_is_a_cross_validation(imgs, y, mask):
    scoring = ["balanced_accuracy", "roc_auc", "confusion_matrix"]
    options = {"groups": RUNS, "n_permutations": 25, "random_state": 3}
    result = decode(imgs, y, mask, scoring=scoring, **options)
    runs = np.split(imgs.get_fdata(), 4, axis=-1)
    data = np.concatenate([zscore(run, axis=-1, ddof=1) for run in runs], axis=-1)
    for i in (0, 7, 40, len(result.scores) - 1):
        centre = np.argwhere(mask)[i]
        X = data[tuple(sphere(mask, centre, 4.5).T)].T
        one = cross_validate(X, y, scoring=scoring, **options)
        for name in scoring:
            assert_allclose(result.metrics[name][i], one.metrics[name], rtol=1e-9)
        for name in scoring[:2]:
            assert_allclose(result.nulls[name][:, i], one.nulls[name], rtol=1e-6)
        assert_array_equal(result.predictions[i], one.predictions)


@pytest.mark.parametrize("null", ["max", "stream"])
def test_summaries_give_the_same_p_values(result, imgs, y, mask, null, monkeypatch):
    kept = build.keep(null, decode, imgs, y, mask)
    assert kept.parameters["null"] == null
    assert_array_equal(kept.null_max, result.null_max)
    corrections = ["none", "max", "fdr", "bonferroni"]
    corrections += ["cluster", "tfce"] if null == "stream" else []
    for correction in corrections:
        assert_array_equal(kept.pvalues(correction), result.pvalues(correction))
    if null == "max":
        with pytest.raises(ValueError, match="needs the whole null"):
            kept.pvalues("tfce")
        return
    limit = 40 * mask.sum() * 4 - 1
    monkeypatch.setattr("mvpa_kfda.decoding.run.FULL_NULL_BYTES", limit)
    few, many = (decode(imgs, y, mask, n_permutations=n) for n in (39, 40))
    assert [few.parameters["null"], many.parameters["null"]] == ["full", "stream"]


# -------------------------------------------------------------------- what may be given


# ----------------------------------------------------------------------- neighbourhoods


def test_any_features_with_an_adjacency(imgs, y, mask):
    rng, y = np.random.default_rng(0), np.tile([0, 1], 20)
    names = ["Fz", "Cz", "Pz", "Oz", "Iz", "T7"]
    X = pd.DataFrame(rng.normal(size=(40, 6)), columns=names)
    X["Pz"] += 1000 * y
    chain = build.chain(6)
    options = {"standardize": False, "reg": Ridge(1e-3), "cv": 5}
    result = searchlight(X, y, adjacency=(chain, names), **options)
    assert_array_equal(result.scores == 1, [0, 1, 1, 1, 0, 0])
    assert_array_equal(result.n_features, [2, 3, 3, 3, 3, 2])
    assert_array_equal(result.adjacency, [[0, 1, 2, 3, 4], [1, 2, 3, 4, 5]])
    assert result.to_dataframe()["feature"].tolist() == names
    with pytest.raises(ValueError, match="imgs is an array, whose features have no co"):
        searchlight(X.to_numpy(), y)
    with pytest.raises(ValueError, match=r"column 0 is 'Cz' in imgs and 'Fz' in adjac"):
        searchlight(X[["Cz", "Fz", *names[2:]]], y, adjacency=(chain, names))


def test_centres_with_an_adjacency_are_some_of_the_whole_map():
    rng, y = np.random.default_rng(0), np.tile([0, 1], 20)
    imgs = image(rng.normal(size=(6, 1, 1, 40)) + y)
    inside, some = np.ones((6, 1, 1)), np.isin(np.arange(6), [1, 2, 4])
    ring = np.roll(np.eye(6), 2, axis=1)  # 0-2-4-0 and 1-3-5-1
    options = {"mask_img": build.mask(inside, AFFINE), "adjacency": ring + ring.T}
    options |= {"n_permutations": 19, "random_state": 0, "cv": 5}
    whole = searchlight(imgs, y, **options)
    assert_array_equal(whole.adjacency, [[0, 0, 1, 1, 2, 3], [2, 4, 3, 5, 4, 5]])
    centres = build.mask(some.reshape(6, 1, 1), AFFINE)
    result = searchlight(imgs, y, process_mask_img=centres, **options)
    assert_array_equal(result.scores, whole.scores[some])
    assert_array_equal(result.null, whole.null[:, some])
    assert_array_equal(result.n_features, 3)
    assert_array_equal(result.adjacency, [[1], [2]])  # of 2 and 4
    options["mask_img"], options["adjacency"] = centres, np.eye(3)
    everything = build.mask(inside, AFFINE)
    with pytest.raises(ValueError, match="outside the mask, where adjacency defines"):
        searchlight(imgs, y, process_mask_img=everything, **options)


# ---------------------------------------------------------------------- gaps and errors


def test_useless_voxels_are_nan_and_counted(imgs, y, mask, result):
    data = imgs.get_fdata().copy()
    constant, broken = np.argwhere(mask)[[5, 20]]
    data[tuple(constant)] = 7.0
    data[(*broken, 3)] = np.nan
    match = (
        r"^2 of \d+ voxels hold NaN or infinite values or are constant.*left out and N"
    )
    with pytest.warns(RuntimeWarning, match=match):
        gaps = decode(image(data), y, mask)
    assert_array_equal(np.flatnonzero(np.isnan(gaps.scores)), [5, 20])
    assert_array_equal(np.flatnonzero(~gaps.decoded), [5, 20])
    assert_array_equal(np.flatnonzero(np.isnan(gaps.pvalues("tfce"))), [5, 20])
    assert_array_equal(np.flatnonzero(gaps.n_features == 0), [5, 20])
    assert np.isnan(gaps.to_img().get_fdata()[tuple(constant)])
    # Elsewhere it is as if the mask did not have these voxels.
    less = mask.copy()
    less[tuple(constant)] = less[tuple(broken)] = False
    without = decode(imgs, y, less)
    assert_array_equal(gaps.scores[gaps.decoded], without.scores)
    for correction in ("max", "tfce"):
        p = gaps.pvalues(correction)[gaps.decoded]
        assert_array_equal(p, without.pvalues(correction))


def test_centres_out_of_reach_are_nan(imgs, y):
    mask, there = np.zeros((2, *SHAPE))
    mask[:2], there[4] = 1, 1
    with pytest.warns(RuntimeWarning, match=r"^48 of 120 voxels have nothing to deco"):
        found = decode(imgs, y, mask, process_mask_img=EVERYTHING, radius=3.5)
    assert_array_equal(
        np.isnan(found.to_img().get_fdata()), np.arange(5)[:, None, None] > 2 + 0 * mask
    )
    there = build.mask(there, AFFINE)
    with pytest.raises(ValueError, match="Nothing can be decoded: none of 24 voxels"):
        decode(imgs, y, mask, process_mask_img=there, radius=3.5)


def test_what_does_not_vary_within_runs_is_left_out_or_counted(imgs, y):
    data = imgs.get_fdata().copy()
    data[2, 2, 2] = np.repeat([1.0, 2.0, 3.0, 4.0], 8)
    options = {"groups": RUNS, "mask_img": EVERYTHING, "radius": 1.0}
    with pytest.warns(RuntimeWarning, match="1 of 120 voxels .* within all groups"):
        found = searchlight(image(data), y, **options)
    assert np.flatnonzero(np.isnan(found.scores)).tolist() == [2 * 24 + 2 * 4 + 2]
    data, options["radius"] = imgs.get_fdata().copy(), 3.5
    data[1, 2, 3, RUNS == "b"] = data[0, 0, 0, RUNS == "c"] = 0
    with pytest.warns(RuntimeWarning, match="^2 features are constant within some gro"):
        found = searchlight(image(data), y, **options)
    assert found.decoded.all()
    data[..., RUNS == "d"] = 5
    with pytest.raises(ValueError, match=r"Nothing varies in the group of image 24 \("):
        searchlight(image(data), y, **options)
    options = {"mask_img": EVERYTHING, "standardize": False, "cv": LeaveOneGroupOut()}
    with pytest.raises(ValueError, match="no model sees the class it is tested on"):
        searchlight(imgs, y, groups=y, **options)


# --------------------------------------------------- workers, and interrupted runs


class Stopped(Exception):
    """What stops a run."""


@pytest.mark.parametrize(("null", "n_jobs"), [("full", 1), ("max", 2), ("stream", 2)])
def test_a_stopped_run_continues(imgs, y, mask, tmp_path, monkeypatch, null, n_jobs):
    monkeypatch.setattr(positions, "_LONGEST", 3)
    path, computed, saved = tmp_path / "run.checkpoint", [], []
    run_block, save = run._run_block, Checkpoint.save

    def counting_save(self, number, arrays):
        save(self, number, arrays)
        saved.append(number)

    def counting(source, task, block):
        if limit is not None and len(computed) >= limit:
            raise Stopped("as asked")
        computed.append(block[0] // 3)
        for _ in range(20):  # mostly, what other workers finished is saved by then
            if len(saved) >= len(computed) - 3:
                break
            time.sleep(0.001)
        return run_block(source, task, block)

    def compute(random_state=None, checkpoint=path, **changes):
        options = {"scoring": ["accuracy", "confusion_matrix"], "n_permutations": 5}
        options |= {"random_state": random_state, "checkpoint": checkpoint}
        # Threads, because other processes would not know of the stop.
        with joblib.parallel_config(backend="threading", n_jobs=n_jobs):
            return build.keep(null, decode, imgs, y, mask, **(options | changes))

    expected = compute(random_state=5, checkpoint=None)
    monkeypatch.setattr(run, "_run_block", counting)
    monkeypatch.setattr(Checkpoint, "save", counting_save)
    limit = 5
    with pytest.raises(Stopped, match="as asked"):
        compute(random_state=5)
    first = [*saved]
    limit = 15
    with pytest.raises(Stopped, match="as asked"):
        compute()  # the seed is that of the first run
    second = [*saved]
    limit = None
    assert compute() == expected
    n_blocks, n_computed = -(-mask.sum() // 3), len(computed)
    assert n_blocks > 15
    assert set(computed) == set(saved) == set(range(n_blocks))
    # What was not saved when a worker stopped is computed again, and nothing else.
    assert len(saved) == n_blocks
    if n_jobs == 1:
        assert (first, second) == (computed[:5], computed[:15])
        assert n_computed == n_blocks
    assert compute() == expected  # from the file alone
    assert len(computed) == n_computed
    for changes, message in (
        ({"radius": 5.0}, "radius was 4.5 and is 5.0"),
        ({"random_state": 6}, "random_state was 5 and is 6"),
        ({"reg": 0.5}, "reg was 'auto' and is 0.5"),
        ({"standardize": False}, "the data of imgs differ"),
    ):
        with pytest.raises(ValueError, match=f"checkpoint of another run.*{message}"):
            compute(**changes)


def scaled(size):
    """Two such functions have the same name."""
    return lambda X, Y: np.exp(-size * np.square(X[:, None] - Y[None]).sum(axis=2))


def power(size):
    """Two such functions have the same name, too."""
    return lambda X: np.sign(X) * np.abs(X) ** size


def test_a_checkpoint_is_of_one_analysis(tmp_path, monkeypatch):
    rng, y = np.random.default_rng(0), np.tile([0, 1], 10)
    X, ring = rng.normal(size=(20, 8)), np.roll(np.eye(8), 1, axis=1)
    path, C = tmp_path / "run", rng.normal(size=20)
    steps = [FunctionTransformer(power(size)) for size in (1.0, 3.0)]

    def compute(X=X, y=y, **options):
        options = {"adjacency": ring, "kernel": scaled(0.1), "cv": 5} | options
        options = {"confounds": C, "preprocess": steps[0]} | options
        return searchlight(X, y, checkpoint=path, **options)

    expected = compute()
    assert compute(kernel=scaled(0.1)).scores.tolist() == expected.scores.tolist()
    half = np.repeat([0, 1], 10)
    for changes, what in (
        ({"kernel": scaled(1.0)}, "the data of the kernel's values differ"),
        ({"preprocess": steps[1]}, "the data of preprocess's values differ"),
        ({"adjacency": ring.T}, "the data of spheres or regions differ"),
        ({"cv": list(KFold(5).split(X))}, "cv was KFold.* and is 'given'"),
        ({"cv": KFold(5, shuffle=True, random_state=0)}, "the data of cv's folds"),
        ({"groups": half, "standardize": False, "cv": 5}, "the data of groups differ"),
        ({"X": X + np.eye(20, 8)}, "the data of imgs differ"),
        ({"y": np.where(y, "b", "a")}, "the data of y differ"),
        ({"confounds": C + np.eye(20)[0]}, "the data of confounds differ"),
        ({"scoring": "roc_auc"}, r"scoring was \['accuracy'\] and is \['roc_auc'\]"),
        ({"dtype": "float32"}, "dtype was 'float64' and is 'float32'"),
        ({"n_permutations": 30}, "n_permutations was 0 and is 30.*of permutations dif"),
    ):
        with pytest.raises(ValueError, match=f"checkpoint of another run.*{what}"):
            compute(**changes)
    monkeypatch.setattr("mvpa_kfda.__version__", "99.0")
    with pytest.raises(ValueError, match=r"version of mvpa_kfda was .* and is '99.0'"):
        compute()


# ----------------------------------------------------------------------- a Dask cluster


@pytest.fixture
def of_features(monkeypatch):
    """A map of 120 features in blocks of 4."""
    monkeypatch.setattr(positions, "_LONGEST", 4)
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 120)), np.tile([0, 1, 2], 20)
    near = np.abs(np.subtract.outer(np.arange(120), np.arange(120))) < 20
    options = {"n_permutations": 30, "random_state": 0, "adjacency": near}
    return partial(searchlight, X, y, scoring=["accuracy", "roc_auc"], **options)


def die_at_a_block(source, task, block, run_block=run._run_block):
    if block[0] == 40:
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGKILL)
    return run_block(source, task, block)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="not on Windows")
@pytest.mark.parametrize("kill", [False, True])
@pytest.mark.parametrize("with_checkpoint", [False, True])
def test_a_cluster_gives_the_same_result_and_a_killed_worker_loses_nothing(
    of_features, monkeypatch, tmp_path, kill, with_checkpoint
):
    add, killed = run.MapStore.add, []
    expected = of_features(n_jobs=1)
    path = tmp_path / "run" if with_checkpoint else None
    with two_workers() as client:

        def add_and_kill(gathered, block, part):
            if not killed:
                killed.append(next(iter(client.run(os.getpid).values())))
                os.kill(killed[0], signal.SIGKILL)
            add(gathered, block, part)

        if kill:
            monkeypatch.setattr(run.MapStore, "add", add_and_kill)
        with joblib.parallel_config(backend="dask"):
            assert of_features(checkpoint=path) == expected
    assert len(killed) == kill
    if with_checkpoint:
        assert of_features(checkpoint=path) == expected


@pytest.mark.slow
def test_workers_that_are_lost_say_how_to_go_on(of_features, monkeypatch, tmp_path):
    """Two workers of this machine, one of which is killed at its first block."""
    expected, path = of_features(n_jobs=1), tmp_path / "run"
    words = (
        "A worker process was killed, .* Nothing of this run is kept; with "
        "checkpoint='run.checkpoint' finished blocks are, and the same call goes on"
    )
    with monkeypatch.context() as patch:
        patch.setattr(run, "_run_block", die_at_a_block)
        with pytest.raises(RuntimeError, match=words):
            of_features(n_jobs=2)
        words = rf"{path} keeps the finished blocks of this run \((\d+)\); the same c"
        with pytest.raises(RuntimeError, match=words) as raised:
            of_features(n_jobs=2, checkpoint=path)
    with Checkpoint(path) as kept:
        said = int(re.search(words, str(raised.value))[1])
        assert 0 <= said == len(kept.finished) < 30
    assert of_features(n_jobs=1, checkpoint=path) == expected


def test_errors_name_the_place_and_come_before_images_are_read(imgs, y):
    def broken(X, Y):
        return -X @ Y.T

    match = r"^At the voxel at x [-\d.]+, y .*positive se"
    with pytest.raises(ValueError, match=match):
        searchlight(imgs, y, mask_img=EVERYTHING, kernel=broken)
    for wrong, message in (
        ({"kernel": "precomputed"}, "The data hold features"),
        ({"standardize": "psc"}, "Invalid value for 'standardize'"),
        ({"checkpoint": 3}, "Invalid value for 'checkpoint': 3.*path of a file"),
    ):
        for function in (searchlight, partial(decode_regions, labels_img="no")):
            with pytest.raises((ValueError, TypeError), match=message):
                function("no-such-file.nii", [0, 1], **wrong)


def test_meshes_differ_in_triangles_in_vertices_or_in_parts():
    def image(**parts):
        return types.SimpleNamespace(mesh=types.SimpleNamespace(parts=parts))

    def part(n=4, faces=((0, 1, 2), (1, 2, 3))):
        return types.SimpleNamespace(coordinates=np.zeros((n, 3)), faces=faces)

    one = image(left=part(), right=part())
    check_mesh(image(left=part(), right=part()), one, "mask_img")
    for other in (
        image(left=part(), right=part(faces=((0, 1, 2), (0, 2, 3)))),
        image(left=part(), right=part(n=5)),
        image(left=part()),
    ):
        with pytest.raises(ValueError, match="mask_img is on another mesh"):
            check_mesh(other, one, "mask_img")


@pytest.mark.parametrize(("shift", "fits"), [(0.005, True), (0.05, False)])
def test_grids_are_compared_to_the_shortest_edge_of_voxels(shift, fits):
    affine = np.diag([1.0, 1.0, 10.0, 1.0])
    y, rng = np.arange(24) % 3, np.random.default_rng(3)
    bold = nibabel.Nifti1Image(rng.normal(size=(3, 3, 3, 24)), affine)
    moved = affine.copy()
    moved[0, 3] = shift
    mask = nibabel.Nifti1Image(np.ones((3, 3, 3), np.uint8), moved)
    options = {"groups": np.arange(24) // 6, "mask_img": mask, "radius": 1.0}
    if fits:
        assert searchlight(bold, y, **options).scores.shape == (27,)
    else:
        with pytest.raises(ValueError, match="grid"):
            searchlight(bold, y, **options)
