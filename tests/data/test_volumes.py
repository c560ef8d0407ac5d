"""Searchlights and regions from images to results, against nilearn and the core."""

import time
import warnings

import joblib
import numpy as np
import pandas as pd
import pytest
from nibabel import Nifti1Image
from nilearn.decoding import SearchLight
from nilearn.maskers import NiftiMasker
from nilearn.surface import InMemoryMesh, PolyMesh, SurfaceImage
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.stats import zscore
from sklearn.model_selection import KFold, LeaveOneGroupOut
from sklearn.preprocessing import FunctionTransformer

from mvpa_kfda import (
    RBF,
    KernelFDA,
    Polynomial,
    Ridge,
    cross_validate,
    decode_regions,
    searchlight,
)
from mvpa_kfda.decoding import positions, run
from mvpa_kfda.inference import corrections as inference
from mvpa_kfda.utils import memory
from mvpa_kfda.utils.checkpoint import Checkpoint
from tests import build

AFFINE = np.array([[-3.0, 0, 0, 20], [0, 3, 0, -15], [0, 0, 4, 5], [0, 0, 0, 1]])
SHAPE = (5, 6, 4)
ON_MAPS = [n for n, known in inference.CORRECTIONS.items() if not known.of_courses]
N, RUNS = 32, np.repeat(["a", "b", "c", "d"], 8)


def make_data(n_classes=2, seed=0, strength=1.5):
    """Images (x, y, z, n) whose class shows in one corner, and labels."""
    rng = np.random.default_rng(seed)
    codes = np.concatenate([rng.permutation(8) % n_classes for _ in range(4)])
    data = rng.normal(size=(*SHAPE, N)) + 100
    data[:3, :3, :2] += strength * rng.normal(size=(3, 3, 2, n_classes))[..., codes]
    return data, np.array(["cat", "dog", "eel", "fox"])[codes]


def image(data, affine=AFFINE):
    return Nifti1Image(np.asarray(data, dtype=np.float64), affine)


def mask_image(mask, affine=AFFINE):
    return Nifti1Image(np.asarray(mask, dtype=np.uint8), affine)


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
EVERYTHING = mask_image(np.ones(SHAPE))


def decode(imgs, y, mask, **options):
    return searchlight(imgs, y, mask_img=mask_image(mask), **(OPTIONS | options))


@pytest.fixture(scope="module")
def result(imgs, y, mask):
    return decode(imgs, y, mask)


def sphere(mask, centre, radius, affine=AFFINE):
    """Voxels of a mask near a centre (voxel indices), by brute force."""
    voxels = np.argwhere(mask)
    away = (voxels - centre) @ affine[:3, :3].T
    return voxels[np.linalg.norm(away, axis=1) <= radius]


# ------------------------------------------------------------ what others would compute


@pytest.mark.some(3)
@pytest.mark.parametrize(
    ("n_classes", "kernel", "radius"),
    [
        (2, "linear", 4.5),  # few voxels: the primal route
        (4, "linear", 4.5),
        (4, "linear", 10.0),  # many voxels
        (2, RBF(gamma=0.01), 4.5),
        (4, Polynomial(2, gamma=0.01, coef0=1.0), 4.5),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore:Use a custom estimator:UserWarning")
def test_scores_equal_nilearns_searchlight(mask, kernel, radius, n_classes):
    data, y = make_data(n_classes)
    bold, cv = image(data - 100), LeaveOneGroupOut()
    method, options = (
        {"kernel": kernel, "reg": Ridge(3.0)},
        {"radius": radius, "cv": cv},
    )
    some = mask & (np.arange(mask.size).reshape(mask.shape) % 5 == 0)
    options["process_mask_img"] = mask_image(some)
    theirs = SearchLight(
        mask_image(mask), estimator=KernelFDA(**method), scoring="accuracy", **options
    ).fit(bold, y, groups=RUNS)
    options |= {"standardize": False, "n_permutations": 0}
    ours = decode(bold, y, mask, **method, **options)
    assert_allclose(ours.scores, theirs.scores_[some], rtol=0, atol=1e-12)
    assert_allclose(ours.to_img().get_fdata(), theirs.scores_, rtol=0, atol=1e-7)
    assert_array_equal(ours.to_img().affine, AFFINE)
    assert len(np.unique(ours.scores)) > 4
    sizes = [len(sphere(mask, centre, radius)) for centre in np.argwhere(some)]
    assert_array_equal(ours.n_features, sizes)


def test_one_informative_voxel_marks_the_spheres_that_hold_it():
    rng, y = np.random.default_rng(0), np.tile([0, 1], 20)
    data = rng.normal(size=(9, 9, 9, 40))
    data[4, 4, 4] = 1000 * y
    affine = np.diag([2, 2, 2, 1])
    bold, everything = image(data, affine), mask_image(np.ones((9, 9, 9)), affine)
    options = {"standardize": False, "reg": Ridge(1e-3), "cv": 5}
    for radius, n_spheres in [(1.9, 1), (2, 7), (4, 33)]:
        found = searchlight(bold, y, mask_img=everything, radius=radius, **options)
        assert (found.scores == 1).sum() == n_spheres
        assert found.n_features.max() == n_spheres
        marked = np.argwhere(found.to_img().get_fdata() == 1)
        assert np.linalg.norm(2 * (marked - 4), axis=1).max() <= radius


@pytest.mark.parametrize("standardize", ["zscore_sample", False])
def test_each_sphere_is_a_cross_validation(imgs, y, mask, standardize):
    scoring = ["balanced_accuracy", "roc_auc", "confusion_matrix"]
    options = {"groups": RUNS, "n_permutations": 25, "random_state": 3}
    given = {"standardize": standardize, "scoring": scoring} | options
    result, data = decode(imgs, y, mask, **given), imgs.get_fdata()
    if standardize:
        runs = np.split(data, 4, axis=-1)
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


def test_p_values_correct_for_all_spheres(result, mask):
    assert result.n_permutations == 40
    assert result.null.shape == (40, mask.sum())
    assert result.null.dtype == np.float32
    edges = sparse.csr_array(
        (np.ones(result.adjacency.shape[1]), tuple(result.adjacency)),
        shape=(mask.sum(), mask.sum()),
    )
    for correction in ON_MAPS:
        expected = inference.corrected_p_values(
            result.scores, result.null, correction, adjacency=edges + edges.T
        )
        assert_array_equal(result.pvalues(correction), expected)
    assert result.pvalues("max").min() == 1 / 41
    corner = result.to_img("p", correction="max").get_fdata() <= 0.05
    assert corner[:4, :4, :3].sum() == corner.sum() > 0


@pytest.mark.parametrize("null", ["max", "stream"])
def test_summaries_give_the_same_p_values(result, imgs, y, mask, null):
    kept = build.keep(null, decode, imgs, y, mask)
    assert kept.parameters["null"] == null
    assert_array_equal(kept.null_max, result.null_max)
    for correction in ("none", "max", "fdr", "bonferroni"):
        assert_array_equal(kept.pvalues(correction), result.pvalues(correction))
    if null == "stream":
        for correction in ("cluster", "tfce"):
            assert_array_equal(kept.pvalues(correction), result.pvalues(correction))
    else:
        with pytest.raises(ValueError, match="needs the whole null"):
            kept.pvalues("tfce")


def test_large_nulls_are_summarised(imgs, y, mask, monkeypatch):
    monkeypatch.setattr(
        "mvpa_kfda.decoding.run.FULL_NULL_BYTES", 40 * mask.sum() * 4 - 1
    )
    few, many = (decode(imgs, y, mask, n_permutations=n) for n in (39, 40))
    assert [few.parameters["null"], many.parameters["null"]] == ["full", "stream"]
    monkeypatch.setattr(memory, "usable_memory", lambda: 20_000)
    with pytest.raises(
        ValueError, match=r"A map of \d+ voxels .* needs .* smaller mask"
    ):
        decode(imgs, y, mask)


# -------------------------------------------------------------------- what may be given


def test_labels_from_a_table(result, imgs, y, mask, tmp_path):
    table = pd.DataFrame({"label": y, "run": RUNS})
    table.to_csv(tmp_path / "labels.tsv", sep="\t", index=False)
    for where in (table, tmp_path / "labels.tsv"):
        assert decode(imgs, (where, "label"), mask, groups="run") == result
    with pytest.raises(ValueError, match=r"'labels', given for y, is not a column"):
        searchlight(imgs, (table, "labels"), groups="run")


def test_lists_paths_and_maskers_are_the_same_data(result, imgs, y, mask, tmp_path):
    data, where = imgs.get_fdata(), mask_image(mask)
    single = [image(data[..., i]) for i in range(N)]
    halves = [image(data[..., :10]), image(data[..., 10:])]
    imgs.to_filename(tmp_path / "bold.nii.gz")
    masker = NiftiMasker(where, standardize=None).fit()
    for given in (single, halves, str(tmp_path / "bold.nii.gz")):
        assert decode(given, y, mask) == result
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert searchlight(imgs, y, mask_img=masker, **OPTIONS) == result


def test_surfaces():
    # A strip of triangles: vertex i is next to i + 1 and i + 2, all edges 1 mm or so.
    points = np.column_stack([np.arange(20) * 0.5, np.arange(20) % 2, np.zeros(20)])
    faces = np.column_stack([np.arange(18) + i for i in range(3)])
    left, right = InMemoryMesh(points, faces), InMemoryMesh(points + 100, faces)
    mesh = PolyMesh(left=left, right=right)
    rng, y = np.random.default_rng(0), np.tile([0, 1], 16)
    left, right = rng.normal(size=(2, 20, 32))
    right[10] += 1000 * y
    both = SurfaceImage(mesh, {"left": left, "right": right})
    result = searchlight(
        both, y, radius=1, distance="edges", standardize=False, reg=Ridge(1e-3), cv=4
    )
    assert_array_equal(
        np.flatnonzero(result.scores == 1), 20 + np.array([8, 9, 10, 11, 12])
    )
    assert result.n_features.max() == 5
    painted = result.to_img().data.parts["right"]
    assert_array_equal(np.flatnonzero(painted == 1), [8, 9, 10, 11, 12])
    in_mm = searchlight(both, y, radius=1.01, standardize=False, reg=Ridge(1e-3), cv=4)
    assert_array_equal(np.flatnonzero(in_mm.scores == 1), 20 + np.array([8, 10, 12]))


def test_any_features_with_an_adjacency():
    rng, y = np.random.default_rng(0), np.tile([0, 1], 20)
    X = rng.normal(size=(40, 6))
    X[:, 2] += 1000 * y
    chain = sparse.diags_array([1.0, 1.0], offsets=[-1, 1], shape=(6, 6))
    names = ["Fz", "Cz", "Pz", "Oz", "Iz", "T7"]
    result = searchlight(
        X, y, adjacency=(chain, names), standardize=False, reg=Ridge(1e-3), cv=5
    )
    assert_array_equal(result.scores == 1, [0, 1, 1, 1, 0, 0])
    assert_array_equal(result.n_features, [2, 3, 3, 3, 3, 2])
    assert_array_equal(result.adjacency, [[0, 1, 2, 3, 4], [1, 2, 3, 4, 5]])
    assert result.to_dataframe()["feature"].tolist() == names
    with pytest.raises(ValueError, match="imgs is an array, whose features have no co"):
        searchlight(X, y)


def test_voxels_with_an_adjacency(imgs, y, mask):
    n = int(mask.sum())
    options = {"groups": RUNS, "mask_img": mask_image(mask), "adjacency": np.eye(n)}
    alone = searchlight(imgs, y, **options)
    assert_array_equal(alone.n_features, 1)
    with pytest.raises(ValueError, match="outside the mask, where adjacency defines"):
        searchlight(imgs, y, process_mask_img=EVERYTHING, **options)


def test_centres_with_an_adjacency_are_some_of_the_whole_map():
    rng, y = np.random.default_rng(0), np.tile([0, 1], 20)
    imgs = Nifti1Image(rng.normal(size=(6, 1, 1, 40)) + y, AFFINE)
    inside, some = np.ones((6, 1, 1), bool), [1, 2, 4]
    ring = np.roll(np.eye(6), 2, axis=1)  # 0-2-4-0 and 1-3-5-1
    options = {"mask_img": mask_image(inside), "adjacency": ring + ring.T, "cv": 5}
    options |= {"n_permutations": 19, "random_state": 0}
    whole = searchlight(imgs, y, **options)
    assert_array_equal(whole.adjacency, [[0, 0, 1, 1, 2, 3], [2, 4, 3, 5, 4, 5]])
    inside[:] = False
    inside[some] = True
    result = searchlight(imgs, y, process_mask_img=mask_image(inside), **options)
    assert_array_equal(result.scores, whole.scores[some])
    assert_array_equal(result.null, whole.null[:, some])
    assert_array_equal(result.n_features, 3)
    assert_array_equal(result.adjacency, [[1], [2]])  # of 2 and 4


def test_regions_are_decoded_from_their_voxels(imgs, y):
    labels = np.zeros(SHAPE, dtype=np.int16)
    labels[:3, :3, :2], labels[3:, 3:], labels[0, 5, 3] = 7, 3, 12
    names = ["Background", "V1", "FFA", "x"]
    lut = pd.DataFrame({"index": [0, 3, 7, 12], "name": names})
    options = {"groups": RUNS, "n_permutations": 25, "random_state": 3}
    given = {"labels_img": mask_image(labels), "lut": lut, "standardize": False}
    result = decode_regions(imgs, y, **given, **options)
    table = result.to_dataframe()
    assert table["region"].tolist() == ["V1", "FFA", "x"]
    data = imgs.get_fdata()
    for i, number in enumerate([3, 7, 12]):
        one = cross_validate(data[labels == number].T, y, **options)
        assert result.scores[i] == pytest.approx(one.scores, rel=1e-12)
        assert_allclose(result.null[:, i], one.null, rtol=1e-6)
        painted = result.to_img().get_fdata()[labels == number]
        assert_allclose(painted, one.scores, rtol=1e-6)
    assert_array_equal(result.n_features, [24, 18, 1])
    assert result.scores[1] > 0.8


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
    for correction in ON_MAPS:
        p = gaps.pvalues(correction)[gaps.decoded]
        assert_array_equal(p, without.pvalues(correction))


def test_centres_out_of_reach_are_nan(imgs, y):
    mask = np.zeros(SHAPE)
    mask[:2] = 1
    with pytest.warns(RuntimeWarning, match=r"^48 of 120 voxels have nothing to deco"):
        found = decode(imgs, y, mask, process_mask_img=EVERYTHING, radius=3.5)
    assert_array_equal(
        np.isnan(found.to_img().get_fdata()), np.arange(5)[:, None, None] > 2 + 0 * mask
    )


def test_nothing_to_decode_is_an_error(imgs, y):
    here, there = np.zeros((2, *SHAPE))
    here[0], there[4] = 1, 1
    with pytest.raises(ValueError, match="Nothing can be decoded: none of 24 voxels"):
        decode(imgs, y, here, process_mask_img=mask_image(there), radius=3.5)


def test_voxels_that_differ_between_runs_only_are_left_out(imgs, y):
    data = imgs.get_fdata().copy()
    data[2, 2, 2] = np.repeat([1.0, 2.0, 3.0, 4.0], 8)
    options = {"groups": RUNS, "mask_img": EVERYTHING, "radius": 1.0}
    with pytest.warns(RuntimeWarning, match="1 of 120 voxels .* within all groups"):
        found = searchlight(image(data), y, **options)
    assert np.flatnonzero(np.isnan(found.scores)).tolist() == [2 * 24 + 2 * 4 + 2]
    with pytest.warns(RuntimeWarning, match="within all groups"):
        searchlight(image(data), y, **(options | {"radius": 4.5}))


def test_voxels_without_signal_in_a_run_are_counted(imgs, y):
    data = imgs.get_fdata().copy()
    data[1, 2, 3, RUNS == "b"] = data[0, 0, 0, RUNS == "c"] = 0
    options = {"groups": RUNS, "mask_img": EVERYTHING, "radius": 3.5}
    with pytest.warns(RuntimeWarning, match="^2 features are constant within some gro"):
        found = searchlight(image(data), y, **options)
    assert found.decoded.all()
    data[..., RUNS == "d"] = 5
    with pytest.raises(ValueError, match=r"Nothing varies in the group of image 24 \("):
        searchlight(image(data), y, **options)


def test_groups_that_are_the_classes(imgs, y):
    for groups in (y, np.char.add(y, RUNS)):
        cv = LeaveOneGroupOut() if groups is y else [(y == "cat", y == "dog")]
        options = {"mask_img": EVERYTHING, "standardize": False, "cv": cv}
        with pytest.raises(ValueError, match="no model sees the class it is tested on"):
            searchlight(imgs, y, groups=groups, **options)


def test_names_of_an_adjacency_are_those_of_the_columns():
    rng, y = np.random.default_rng(0), np.tile([0, 1], 20)
    names = ["Fz", "Cz", "Pz"]
    X = pd.DataFrame(rng.normal(size=(40, 3)), columns=names)
    found = searchlight(X, y, adjacency=(np.eye(3), names), cv=5)
    assert found.to_dataframe()["feature"].tolist() == names
    with pytest.raises(ValueError, match=r"column 0 is 'Cz' in imgs and 'Fz' in adjac"):
        searchlight(X[["Cz", "Fz", "Pz"]], y, adjacency=(np.eye(3), names))


def test_labels_in_blocks_are_warned_of():
    rng, groups = np.random.default_rng(0), np.repeat([1, 2], 24)
    X = rng.normal(size=(48, 2))
    blocks = np.repeat([0, 1, 0, 1, 1, 0, 1, 0], 6)
    options = {"adjacency": np.eye(2), "random_state": 0}
    message = "Of simulated recordings without an effect"
    with pytest.warns(UserWarning, match=message):
        searchlight(X, blocks, groups=groups, n_permutations=20, **options)
    for n_permutations in (0, 20):  # without groups the folds cut through blocks
        with pytest.warns(UserWarning, match=message):
            searchlight(X, blocks, n_permutations=n_permutations, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for seed in range(20):
            orders = np.random.default_rng(seed)
            y = np.concatenate([orders.permutation(24) % 2 for _ in range(2)])
            searchlight(X, y, groups=groups, n_permutations=20, **options)
        # Whole groups are exchanged, as between subjects.
        subjects = np.repeat(np.arange(12), 4)
        labels = np.repeat([0, 1] * 6, 4)
        searchlight(X, labels, groups=subjects, n_permutations=20, **options)


def test_runs_of_one_class(imgs, y):
    runs = RUNS.copy()
    runs[y == "cat"] = "a"
    with pytest.raises(ValueError, match=r"one class|single class"):
        searchlight(imgs, y, groups=runs, mask_img=EVERYTHING)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"kernel": "precomputed"}, "The data hold features"),
        ({"standardize": "psc"}, "Invalid value for 'standardize'"),
        ({"checkpoint": 3}, "Invalid value for 'checkpoint': 3.*path of a file"),
        ({"kernel": "rbf2"}, "'rbf2'. Allowed: 'linear', 'rbf', 'polynomial'.$"),
    ],
)
def test_arguments_are_checked_before_images_are_read(wrong, message):
    for function, extra in ((searchlight, {}), (decode_regions, {"labels_img": "no"})):
        with pytest.raises((ValueError, TypeError), match=message):
            function("no-such-file.nii", [0, 1], **extra, **wrong)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"radius": 0}, "Invalid value for 'radius'.*mm"),
        ({"scoring": "r2"}, "r2"),
        ({"imgs": image(make_data()[0][..., 0])}, "3D|one image|single"),
        ({"mask_img": mask_image(np.ones((4, 4, 4)))}, "mask_img"),
        ({"mask_img": mask_image(np.ones(SHAPE), np.eye(4))}, "affine|grid"),
        ({"mask_img": mask_image(np.zeros(SHAPE))}, "mask_img"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_errors_name_the_argument(imgs, y, change, message):
    given = {"imgs": imgs, "y": y, "mask_img": EVERYTHING} | change
    with pytest.raises((ValueError, TypeError), match=message):
        searchlight(**given)


def test_an_error_of_a_kernel_names_the_sphere(imgs, y, mask):
    def broken(X, Y):
        return -X @ Y.T

    with pytest.raises(
        ValueError, match=r"^At the voxel at x [-\d.]+, y .*positive se"
    ):
        searchlight(imgs, y, mask_img=mask_image(mask), kernel=broken)


# --------------------------------------------------- workers, and interrupted runs


class Stopped(Exception):
    """What stops a run."""


@pytest.mark.some(4)
@pytest.mark.parametrize("null", ["full", "max", "stream"])
@pytest.mark.parametrize("n_jobs", [1, 2])
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

    def compute(random_state=None, y=y, checkpoint=path, **changes):
        options = {"scoring": ["accuracy", "confusion_matrix"], "n_permutations": 15}
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
    monkeypatch.setattr(run, "_run_block", run_block)
    for changes, message in (
        ({"radius": 5.0}, "radius was 4.5 and is 5.0"),
        ({"random_state": 6}, "random_state was 5 and is 6"),
        ({"reg": 0.5}, "reg was 'auto' and is 0.5"),
        ({"kernel": "rbf"}, "kernel was"),
        ({"standardize": False}, "the data of imgs differ"),
        ({"y": y[::-1]}, "the data of y differ"),
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


def test_a_checkpoint_is_of_its_training_sets(tmp_path):
    rng, y = np.random.default_rng(0), np.tile([0, 1], 10)
    X, path = rng.normal(size=(20, 4)), tmp_path / "run"
    options = {"labels_img": [1, 1, 2, 2], "checkpoint": path}
    folds, parts = list(KFold(5).split(X)), (slice(2, None), slice(None, -2))
    fewer, others = ([(train[at], test) for train, test in folds] for at in parts)
    first = decode_regions(X, y, cv=fewer, **options)
    assert decode_regions(X, y, cv=fewer, **options) == first
    with pytest.raises(ValueError, match="the data of cv's folds differ"):
        decode_regions(X, y, cv=others, **options)


def test_checkpoints_of_regions(tmp_path):
    rng, y = np.random.default_rng(0), np.tile([0, 1], 10)
    X, path = rng.normal(size=(20, 4)), tmp_path / "run"
    decode_regions(X, y, labels_img=[1, 1, 2, 2], checkpoint=path)
    with pytest.raises(ValueError, match="the data of spheres or regions differ"):
        decode_regions(X, y, labels_img=[1, 2, 2, 2], checkpoint=path)
