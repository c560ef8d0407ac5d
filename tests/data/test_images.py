"""What searchlights take in: labels and images, read as plain NumPy and nilearn do."""

import ast
import gzip
import re
import warnings
from functools import partial
from pathlib import Path

import nibabel
import numpy as np
import pandas as pd
import pytest
from nibabel import Nifti1Image
from nilearn.datasets import load_mni152_template
from nilearn.image import math_img, new_img_like, resample_to_img
from nilearn.maskers import (
    NiftiLabelsMasker,
    NiftiMasker,
    SurfaceLabelsMasker,
    SurfaceMasker,
)
from nilearn.masking import apply_mask
from nilearn.signal import clean
from nilearn.surface import InMemoryMesh, SurfaceImage
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.utils import Bunch

from mvpa_kfda import Betas
from mvpa_kfda.data.atlas import read_regions
from mvpa_kfda.data.bold import open_runs
from mvpa_kfda.data.images import (
    open_images,
    opened,
    process_positions,
    read_images,
    read_labels,
)
from mvpa_kfda.data.space import FeatureSpace, SurfaceSpace, VolumeSpace
from mvpa_kfda.data.volumes import find_runs, flat_within_runs, usable_columns
from mvpa_kfda.data.volumes import standardize as z_score
from tests import build

SHAPE, N = (4, 3, 5), 8
MASK = np.random.default_rng(1).random(SHAPE) < 0.7
MASK_IMG = build.mask(MASK)
DATA = 100 + np.random.default_rng(0).standard_normal((N, *SHAPE))
BOLD = build.volume(DATA)
Y = np.array(list("abcabcab"))
RUNS = np.repeat([1, 2], 4)
TABLE = pd.DataFrame({"word": Y, "run": RUNS, "gaps": [None, *"abcabca"]})


# ------------------------------------------------------------------------------- labels


@pytest.mark.parametrize(
    ("classes", "y", "names"),
    [
        (["c", "a"], ["a", "c", "a", "c", "a"], {"c": ["c"], "a": ["a"]}),
        (
            {"x ": ["a", " b"], "y": "c"},
            ["x", "x", "y", "x", "x", "y", "x", "x"],
            {"x": ["a", "b"], "y": ["c"]},
        ),
    ],
    ids=str,
)
def test_classes_are_some_labels_or_several_as_one(classes, y, names):
    trials, given, kept, record = read_labels(Y, RUNS, classes=classes)
    expected = np.flatnonzero(np.isin(Y, sorted({*"abc"} if len(y) == N else {*"ac"})))
    assert_array_equal(trials.y, y)
    assert_array_equal(kept, expected)
    assert_array_equal(trials.groups, RUNS[expected])
    assert_array_equal(trials.numbers, expected)
    assert_array_equal(given[0], Y)  # z-scores are of all images
    assert_array_equal(given[1], RUNS)
    assert record["classes"] == names
    assert record["n_images"] == N


def test_betas_bring_their_table_and_mask():
    betas = Betas(BOLD, TABLE, MASK_IMG, [None, None], {"method": "lss"})
    imgs, y, mask_img, record = opened(betas, "word", "run")
    assert (imgs, mask_img) == (BOLD, MASK_IMG)
    assert y[0] is TABLE
    assert record["recordings"] == betas.record() | {"group": "run"}
    assert opened(betas, Y, RUNS)[3] == record
    assert opened(betas, Y, Y)[3]["recordings"]["group"] is None
    assert opened(BOLD, Y)[2:] == (None, {})


# ------------------------------------------------------------------------------- images


def test_parts_of_images_are_read_at_once():
    space, read = open_images(BOLD, MASK_IMG)
    chosen = np.arange(space.n_positions) % 3 == 0
    some = read(chosen)
    assert_array_equal(some.X, read_images(BOLD, MASK_IMG).X[:, chosen])
    assert some.space == space.take(chosen)
    assert_array_equal(space.mask, MASK)
    whole, _ = open_images(BOLD, whole=True)
    assert whole.n_positions == np.prod(SHAPE)


def test_columns_that_are_not_finite_or_constant_are_marked():
    data = DATA.copy().reshape(N, -1)
    bad = np.flatnonzero(MASK)[[0, 4, 7]]
    data[3][bad[0]], data[:, bad[1]] = np.nan, 5.0
    data[:, bad[2]] = 5.0 * (1 + 1e-14 * np.arange(N))  # but for rounding
    data = data.reshape(DATA.shape)
    masker = NiftiMasker(MASK_IMG, standardize=None).fit()
    for mask_img in (MASK_IMG, masker):
        images = read_images(build.volume(data), mask_img)
        assert np.flatnonzero(~images.usable).tolist() == [0, 4, 7]
    assert np.isnan(read_images(build.volume(data), MASK_IMG).X[3, 0])
    data[2] = np.nan
    message = r"hold NaN or infinity and 0 are constant. Image 2 \(counted from 0\) hol"
    with pytest.raises(ValueError, match=message):
        read_images(build.volume(data), MASK_IMG)
    flat = 0 * DATA + 1
    flat[3, ~MASK] = 2
    with pytest.raises(ValueError, match=r"None of .* and \d+ are constant"):
        read_images(build.volume(flat), MASK_IMG)


AFFINE = np.array(
    [[-3.0, 0, 0, 60], [0, 3.5, 0.2, -70], [0, -0.2, 3, -40], [0] * 3 + [1]]
)
GRID = (5, 6, 4)
REFUSALS = (ValueError, TypeError, FileNotFoundError)


def standardize(X, groups, codes):
    """Z-score data within the runs that groups and labels make."""
    return z_score(X, find_runs(groups, codes))


def volume(data, affine=AFFINE):
    return Nifti1Image(data, affine)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def bold(rng):
    """Return 9 volumes: a brain of noise around 100, and zeros around it."""
    data = np.zeros((*GRID, 9))
    data[1:4, 1:5, :] = 100 + rng.standard_normal((3, 4, 4, 9))
    return volume(data)


@pytest.fixture
def mask(rng):
    """Return a mask with holes, inside of the brain."""
    data = np.zeros(GRID, np.int16)
    data[1:4, 1:5] = rng.random((3, 4, 4)) < 0.6
    return volume(data)


def changed(img, *values):
    """Return an image with other values at some places: (index, value), ..."""
    data = np.array(img.dataobj)
    for index, value in values:
        data[index] = value
    return volume(data)


def first_voxels(mask, n):
    """Return the indices of the first voxels of a mask."""
    return [tuple(index) for index in np.argwhere(np.asarray(mask.dataobj))[:n]]


def slices(img):
    data = np.asarray(img.dataobj)
    return [volume(data[..., i]) for i in range(data.shape[3])]


# Volumes


def test_volumes_are_masked_as_by_nilearn(bold, mask):
    images, expected = read_images(bold, mask), apply_mask(bold, mask)
    assert_array_equal(images.X, expected)
    assert images.X.dtype == np.float64
    assert images.X.flags.f_contiguous
    assert images.space == VolumeSpace(np.asarray(mask.dataobj), AFFINE)
    assert images.usable.all()
    each, data = slices(bold), np.asarray(bold.dataobj)
    for imgs in (
        *(each, tuple(each), iter(each)),
        [volume(data[..., :4]), volume(data[..., 4:])],
        [each[0], volume(data[..., 1:8]), volume(data[..., 8:])],
    ):
        assert_array_equal(read_images(imgs, mask).X, expected)


def test_paths_and_patterns(bold, mask, tmp_path, monkeypatch):
    for number, img in enumerate(slices(bold)):
        nibabel.save(img, tmp_path / f"beta {number}.nii")
    nibabel.save(bold, tmp_path / "bold.nii.gz")
    nibabel.save(mask, tmp_path / "mask.nii.gz")
    expected = apply_mask(bold, mask)
    pattern = tmp_path / "beta*.nii"
    paths = sorted(tmp_path.glob("beta*"))
    monkeypatch.setenv("HOME", str(tmp_path))
    for imgs in (
        tmp_path / "bold.nii.gz",
        str(tmp_path / "bold.nii.gz"),
        "~/bold.nii.gz",
        pattern,
        [str(path) for path in paths],
        np.array([str(path) for path in paths]),
        pd.Series(paths, index=range(5, 14)),
    ):
        images = read_images(imgs, tmp_path / "mask.nii.gz")
        assert_array_equal(images.X, expected)


def test_blocks_of_volumes(bold, mask, monkeypatch):
    monkeypatch.setattr("mvpa_kfda.data.volumes.MASKED_AT_ONCE", 2 * np.prod(GRID) + 1)
    masker = NiftiMasker(mask, standardize=None, reports=False).fit()
    a, b, c = first_voxels(mask, 3)  # constant, then lower or higher at the end
    broken = changed(bold, (a, 7.0), (b, 7.0), ((*b, 8), 3.0), (c, 7.0), ((*c, 8), 9.0))
    assert_array_equal(read_images(bold, mask).X, apply_mask(bold, mask))
    assert_array_equal(np.flatnonzero(~read_images(broken, masker).usable), [0])


def test_types_of_numbers(bold, mask):
    whole = volume((np.asarray(bold.dataobj) * 1e6).astype(np.int32))
    assert_array_equal(read_images(whole, mask).X, apply_mask(whole, mask, dtype=float))
    # Data of a list are not cast to the type of its first image.
    first, *others = slices(bold)
    imgs = [volume(np.asarray(first.dataobj).astype(np.uint8)), *others]
    X = read_images(imgs, mask).X
    assert_array_equal(X[1:], apply_mask(bold, mask)[1:])
    masker = NiftiMasker(mask, standardize=None, reports=False).fit()
    assert_array_equal(read_images(imgs, masker).X, X)


def test_images_stay_as_they_are(bold, mask, tmp_path):
    bold = changed(bold, ((2, 2, 2, 3), np.nan))
    mask = volume(np.where(np.asarray(mask.dataobj) > 0, 1.0, np.nan))
    before = [np.array(img.dataobj) for img in (bold, mask)]
    nibabel.save(bold, tmp_path / "bold.nii")
    loaded = nibabel.load(tmp_path / "bold.nii")
    for imgs in (bold, loaded):
        standardize(read_images(imgs, mask).X, None, np.arange(9) % 2)
        read_regions(imgs, volume(np.ones(GRID, np.int16)), mask)
    for img, data in zip((bold, mask), before, strict=True):
        assert_array_equal(img.dataobj, data)
    assert not loaded.in_memory


def test_computed_mask_is_that_of_nilearn(bold):
    expected = NiftiMasker(standardize=None, reports=False).fit(bold).mask_img_
    for imgs in (bold, slices(bold)):
        assert_array_equal(read_images(imgs).space.mask, expected.get_fdata() > 0)
    # Sums of whole numbers do not overflow.
    data = np.full((*GRID, 64), -1, np.int16)
    data[1:4, 1:5] = 1023 + np.array([-1, 1] * 32)  # 64 * 1023 = -64 + 2**16
    whole = [volume(data[..., i]) for i in range(64)]
    assert read_images(whole).space.n_positions == 3 * 4 * 4
    # The background of SPM is NaN.
    data = np.array(bold.dataobj)
    data[data == 0] = np.nan
    assert_array_equal(read_images(volume(data)).space.mask, expected.get_fdata() > 0)


def test_no_mask_can_be_computed():
    img = volume(np.zeros((*GRID, 3)))
    with pytest.raises(ValueError, match=r"nilearn finds no mask in imgs: .* Pass mas"):
        read_images(img)


def test_usable_columns_know_rounding(rng):
    X = np.full((6, 4), 1e3) + np.array([0, 1e-11, 1e-7, np.nan]) * rng.random((6, 1))
    assert_array_equal(usable_columns(X), [False, False, True, False])
    assert usable_columns(1e-200 * rng.random((6, 1))).all()


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda img: slices(img)[0], r"single image, shape \(5, 6, 4\)"),
        (lambda img: slices(img)[:1], "imgs is a single image"),
        (lambda img: [], "imgs is empty"),
        (lambda img: "nowhere.nii.gz", "nowhere.nii.gz' is no file"),
        (lambda img: ["/nowhere-*.nii"], "No file matches the pattern"),
        (lambda img: 3, "imgs must be a 4D image, a list .* got int"),
        (lambda img: [img, 3], r"imgs\[1\] must be a volume.* got int"),
        (lambda img: [[1.0, 2.0]], "imgs must be a volume.* got list"),
        (
            lambda img: volume(np.zeros((*GRID, 2, 2))),
            r"imgs must be a 3D or 4D image; its shape is \(5, 6, 4, 2, 2\)",
        ),
        (lambda img: volume(np.zeros((*GRID, 2), complex)), "complex"),
        (
            lambda img: [slices(img)[0], volume(np.asarray(img.dataobj)[1:])],
            r"imgs\[1\] is on another grid.*shape \(4, 6, 4\).*shape \(5, 6, 4\)",
        ),
        (
            lambda img: [img, volume(np.asarray(img.dataobj), AFFINE + np.eye(4, k=3))],
            r"imgs\[1\] is on another grid than imgs\[0",
        ),
        (lambda img: NiftiMasker(), "imgs is a NiftiMasker; .* the fitted"),
        (lambda img: np.zeros((2, 3, 4, 5)), "nibabel.Nifti1Image"),
    ],
)
def test_what_is_no_images(bold, mask, make, match):
    with pytest.raises(REFUSALS, match=match):
        read_images(make(bold), mask)


def test_damaged_files(bold, mask, tmp_path):
    path = tmp_path / "bold.nii"
    nibabel.save(bold, path)
    content = path.read_bytes()
    path.write_bytes(content[:-999])
    with pytest.raises(ValueError, match=r"The data of /.*bold\.nii.* cannot be"):
        read_images(path, mask)
    zipped = tmp_path / "bold.nii.gz"
    zipped.write_bytes(gzip.compress(content)[:-999])
    with pytest.raises(ValueError, match=r"The data of /.*bold\.nii.* cannot be"):
        read_images(zipped, mask)
    path.write_text("no image")
    with pytest.raises(ValueError, match=r"bold\.nii' is no image"):
        read_images(path, mask)


# Masks


def test_mask_on_another_grid(bold, mask):
    target = volume(np.zeros((7, 7, 7)), AFFINE @ np.diag([0.7, 0.7, 0.7, 1]))
    other = resample_to_img(mask, target, interpolation="nearest", force_resample=True)
    match = (
        r"mask_img is on another grid .* shape \(7, 7, 7\) and affine .* against "
        r"shape \(5, 6, 4\) and affine .*resample_to_img\(mask_img, imgs, "
        r"interpolation='nearest'\)"
    )
    with pytest.raises(ValueError, match=match):
        read_images(bold, other)
    for places in ([0, 1, 2, 3], [3, 0, 1, 2]):  # shifted, and turned
        moved = AFFINE + 0.1 * (
            np.eye(4, k=3) if places[0] == 0 else np.eye(4)[:, places]
        )
        with pytest.raises(ValueError, match="mask_img is on another grid"):
            read_images(bold, volume(np.asarray(mask.dataobj), moved))


def turned(image, by=2e-4):
    """Return an image whose affine was rounded, more than nilearn lets pass."""
    affine = image.affine.copy()
    affine[:3] += by
    return Nifti1Image(np.asarray(image.dataobj), affine, image.header)


def test_affines_that_differ_by_rounding(bold, mask):
    """They are on the grid of the first, also for what nilearn does with them."""
    rounded = turned(mask, 1e-5)  # more than np.allclose lets pass at zeros
    assert not np.allclose(rounded.affine, AFFINE)
    images = read_images(bold, rounded)
    assert_array_equal(images.X, apply_mask(bold, mask))
    assert_array_equal(images.space.affine, rounded.affine)
    moved = [slices(bold)[0], *map(turned, slices(bold)[1:])]
    for given in (mask, None):
        images, expected = read_images(moved, given), read_images(slices(bold), given)
        assert_array_equal(images.X, expected.X)
        assert images.space == expected.space
    masker = NiftiMasker(mask, standardize=None, reports=False).fit()
    found = read_images(turned(bold), masker)
    assert_array_equal(found.X, read_images(bold, masker).X)


def test_what_is_no_mask(bold, mask):
    data = np.asarray(mask.dataobj)
    for given, match in [
        (volume(np.zeros(GRID)), "mask_img is empty"),
        (volume(np.full(GRID, np.nan)), "mask_img is empty"),
        (
            math_img("img * np.arange(4.0)", img=mask),
            "zeros and one other value; got 3 others, from 1 to 3",
        ),
        (bold, r"mask_img must be a 3D image; .* \(5, 6, 4, 9\)"),
        (data, "mask_img is an array, which has no affine"),
        (3, "mask_img must be a volume"),
        ("nowhere.nii", "mask_img: 'nowhere.nii' is no file"),
        (surface(4), "mask_img is a surface but imgs are volumes"),
    ]:
        with pytest.raises(REFUSALS, match=match):
            read_images(bold, given)


def test_masks_of_other_numbers(bold, mask):
    data, expected = np.asarray(mask.dataobj), read_images(bold, mask)
    nearly = data * (1 + np.arange(data.size).reshape(GRID) % 3 * 1e-7)
    for given in (
        *(volume(data * 255), volume(data[..., np.newaxis]), volume(nearly)),
        *(volume(np.where(data, 1.0, np.nan)), new_img_like(mask, data > 0)),
    ):
        images = read_images(bold, given)
        assert_array_equal(images.X, expected.X)
        assert images.space == expected.space


# Maskers


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"smoothing_fwhm": 6.0},
        {"standardize": "zscore_sample", "runs": [1, 1, 1, 2, 2, 2, 3, 3, 3]},
        {"detrend": True},
        {"target_affine": np.diag([3.0, 3, 3])},
        {"dtype": "float32"},
    ],
)
@pytest.mark.filterwarnings("ignore:nilearn says:UserWarning")
@pytest.mark.filterwarnings("ignore:imgs are being resampled:UserWarning")
def test_masker_keeps_its_settings(bold, mask, settings):
    settings = {"standardize": None, **settings}
    masker = NiftiMasker(mask, reports=False, **settings).fit()
    images = read_images(bold, masker)
    assert_allclose(images.X, masker.transform(bold), rtol=1e-12, atol=1e-12)
    assert_array_equal(images.space.mask, masker.mask_img_.get_fdata() > 0)
    assert_array_equal(images.space.affine, masker.mask_img_.affine)
    if "target_affine" not in settings:
        assert_allclose(read_images(slices(bold), masker).X, images.X, rtol=0, atol=0)


def test_masker_hides_no_nan(bold, mask):
    a, b, c = first_voxels(mask, 3)
    runs = np.repeat([1, 2, 3], 3)  # the third differs between them only
    img = changed(bold, ((*a, 3), np.nan), (b, 77.7), (c, 2.0**runs))
    for settings in ({}, {"smoothing_fwhm": 6.0}, {"detrend": True}, {"runs": runs}):
        known = {"standardize": "zscore_sample", "reports": False} | settings
        images = read_images(img, NiftiMasker(mask, **known).fit())
        assert np.isfinite(images.X).all()
        lost = [0, 1, 2] if "runs" in settings else [0, 1]
        assert_array_equal(np.flatnonzero(~images.usable), lost)


def test_masker_on_another_grid_hides_no_nan(rng):
    """Each voxel of the coarse mask holds eight of the fine image."""
    data = 100 + rng.standard_normal((8, 8, 8, 5))
    data[4:6, 2:4, 0:2, 1] = np.nan
    coarse = np.diag([2.0, 2, 2, 1])
    coarse[:3, 3] = 0.25
    masker = NiftiMasker(
        volume(np.ones((4, 4, 4), np.uint8), coarse), standardize=None, reports=False
    ).fit()
    with pytest.warns(UserWarning, match="nilearn says: imgs are being resampled"):
        images = read_images(volume(data, np.eye(4)), masker)
    assert not images.usable.reshape(4, 4, 4)[2, 1, 0]
    assert images.usable.sum() > 50


def test_masker_that_will_not_do(bold, mask):
    for imgs, masker, match in (
        (bold, NiftiMasker(mask), r"NiftiMasker that is not fitted.*mask_i"),
        (bold, NiftiLabelsMasker(mask), r"mask_img is a NiftiLabelsMasker"),
        (bold, SurfaceMasker(), "mask_img is a SurfaceMasker"),
        (surface(4), NiftiMasker(mask).fit(), "mask_img is a NiftiMasker"),
    ):
        with pytest.raises(REFUSALS, match=match):
            read_images(imgs, masker)


# Surfaces


def surface(n_maps=None, seed=0, kinds=("left", "right"), shift=0.0, flip=False):
    """Make random maps on strips of triangles, 6 vertices left and 8 right."""
    rng = np.random.default_rng(seed)
    meshes, data = {}, {}
    for part, n in (("left", 6), ("right", 8)):
        if part in kinds:
            places = np.stack(
                [np.arange(n) / 2 + shift, np.arange(n) % 2, 0 * np.arange(n)]
            )
            faces = np.stack([np.arange(n - 2) + i for i in range(3)], axis=1)
            meshes[part] = InMemoryMesh(places.T, faces[:, ::-1] if flip else faces)
            data[part] = rng.standard_normal((n,) if n_maps is None else (n, n_maps))
    return SurfaceImage(meshes, data)


def surface_mask(left=(1, 1, 0, 1, 0, 1), right=(0, 0, 1, 1, 1, 0, 0, 1)):
    data = {"left": np.array(left), "right": np.array(right)}
    return SurfaceImage(surface().mesh, data)


def surface_data(img, mask):
    """Return (n_maps, n_vertices) by hand."""
    parts = img.data.parts
    return np.concatenate(
        [parts[p].reshape(len(parts[p]), -1)[m > 0] for p, m in mask.data.parts.items()]
    ).T


def test_surfaces_are_masked():
    img, mask = surface(5), surface_mask()
    images = read_images(img, mask)
    assert_array_equal(images.X, surface_data(img, mask))
    assert isinstance(images.space, SurfaceSpace)
    for part, mesh in img.mesh.parts.items():
        assert_array_equal(images.space.mask[part], mask.data.parts[part] > 0)
        assert_array_equal(images.space.coordinates[part], mesh.coordinates)
        assert_array_equal(images.space.faces[part], mesh.faces)
    assert mask.data.parts["left"].dtype.kind == "i"  # nilearn makes masks boolean
    whole = read_images(img)
    assert whole.space.n_positions == 14
    assert_array_equal(whole.X[:, 6:], img.data.parts["right"].T)


def test_lists_of_surfaces(monkeypatch):
    mask = surface_mask()
    imgs = [surface(seed=1), surface(2, seed=2), surface(seed=3)]
    expected = np.concatenate([surface_data(img, mask) for img in imgs])
    for at_once in (10**9, 14):
        monkeypatch.setattr("mvpa_kfda.data.volumes.MASKED_AT_ONCE", at_once)
        assert_array_equal(read_images(tuple(imgs), mask).X, expected)
    half = read_images(surface(4, kinds=("right",)))
    assert list(half.space.mask) == ["right"]


def test_surface_maskers():
    imgs, mask = [surface(4, seed=1), surface(seed=2)], surface_mask()
    imgs[0].data.parts["left"][0, 2] = np.nan
    imgs[0].data.parts["left"][1] = imgs[1].data.parts["left"][1] = 3.0
    masker = SurfaceMasker(mask, standardize="zscore_sample", reports=False).fit()
    images = read_images(imgs, masker)
    expected = np.concatenate([surface_data(img, mask) for img in imgs])
    sound = np.arange(8) > 1
    assert_array_equal(images.usable, sound)
    scores = clean(expected[:, sound], detrend=False, standardize="zscore_sample")
    assert_allclose(images.X[:, sound], scores, rtol=1e-12, atol=1e-12)


def test_vertices_count_and_their_places_do_not():
    img, mask = surface(4), surface_mask()
    inflated = SurfaceImage(surface(shift=5.0).mesh, mask.data)
    images = read_images(img, inflated)
    assert_array_equal(images.X, surface_data(img, mask))
    assert_array_equal(
        images.space.coordinates["left"], img.mesh.parts["left"].coordinates
    )


def gifti(folder, image, name):
    """Write the parts of a surface image without meshes; return their paths."""
    paths = {}
    for part, data in image.data.parts.items():
        paths[part] = folder / name.format(part[0].upper())
        rows = np.reshape(data, (len(data), -1)).T.astype(np.float32)
        arrays = [nibabel.gifti.GiftiDataArray(row) for row in rows]
        nibabel.save(nibabel.GiftiImage(darrays=arrays), paths[part])
    return paths


def test_gifti_files_need_a_mesh(tmp_path):
    """What is to be passed has the very files that were given."""
    paths = gifti(tmp_path, surface(4), "sub-r_hemi-{}_bold.func.gii")
    left, right = map(str, paths.values())
    for imgs in (
        *(paths, [paths, paths], [right, left], [left, right, left, right]),
        *(left, paths["left"], f"{tmp_path}/*.gii"),
    ):
        for read in (read_images, partial(read_regions, labels_img=None), open_runs):
            with pytest.raises(TypeError, match="not the mesh that these are of") as e:
                read(imgs)
            call = re.search(r"mesh=({.*}), data=({.*})\)\.$", str(e.value))
            mesh, data = map(ast.literal_eval, call.groups())
            both = imgs not in (left, paths["left"])
            assert set(mesh) == set(data) == ({"left", "right"} if both else {"left"})
            assert data["left"] == left
            assert not both or data["right"] == right
    for imgs in (nibabel.load(left), [nibabel.load(left)], {"left": np.ones((6, 4))}):
        with pytest.raises(TypeError, match="not the mesh that these are of"):
            read_images(imgs)


def test_masks_and_labels_in_gifti_files(tmp_path):
    img, mask = surface(4), surface_mask()
    paths = gifti(tmp_path, mask, "{}h.cortex.shape.gii")
    images = read_images(img, mask)
    for given in (paths, list(paths.values())[::-1], mask.data.parts):
        assert_array_equal(read_images(img, given).X, images.X)
        assert_array_equal(read_regions(img, given)[1].labels, np.ones(8))
    left = surface(4, kinds=("left",))
    assert read_images(left, paths["left"]).space.n_positions == 4
    assert read_images(left, paths).space.n_positions == 4
    for given, match in (
        (paths["left"], "no values of the right hemisphere"),
        ([paths["left"]] * 2, "must be a nilearn SurfaceImage, or {'left'"),
        ("atlas.dlabel.nii", "surfaces; got 'atlas.dlabel.nii'"),
        (dict.fromkeys(paths, "no.gii"), "hemisphere cannot be read"),
    ):
        for read in (read_images, read_regions):
            with pytest.raises(REFUSALS, match=match):
                read(img, given)


def test_strategies_of_nilearn_are_no_masks():
    """It is said how to have the mask, which is true."""
    template = load_mni152_template(resolution=8)
    brain = template.get_fdata()[..., np.newaxis] * 100
    noise = np.random.default_rng(0).normal(size=(*template.shape, 4))
    imgs = Nifti1Image(brain + noise, template.affine)
    strategy, match = "epi", "mask_img='epi' is a mask_strategy of nilearn"
    for read in (read_images, partial(read_regions, labels_img=template)):
        with pytest.raises(ValueError, match=match) as error:
            read(imgs, mask_img=strategy)
    call = re.search(r"nilearn\.maskers\.(.*)\.$", str(error.value))[1]
    mask = eval(call, {"NiftiMasker": NiftiMasker, "imgs": imgs})
    assert read_images(imgs, mask).space.n_positions > 1000


def test_what_is_no_surface(bold, mask):
    img = surface(4)
    for imgs, given, match in [
        (surface(), None, r"imgs is a single image, shape \(14,\)"),
        ([img, bold], None, r"both surfaces and others \(Nifti1Image\)"),
        (img, mask, "mask_img must be a nilearn SurfaceImage"),
        (img, surface(2), "must hold one map"),
        (img, surface(), "zeros and one other value"),
        (img, surface_mask((0,) * 6, (0,) * 8), "mask_img is empty"),
        (img, surface(kinds=("left",)), "another mesh than the images: 6"),
        (img, surface(flip=True), "or other triangles"),
        ([img, surface(flip=True)], None, r"imgs\[1\] is on another mesh"),
        (img, SurfaceMasker(), "SurfaceMasker that is not fitted"),
        (
            img,
            SurfaceMasker(reports=False).fit(surface(flip=True)),
            "The mask of mask_img is on another mesh",
        ),
        (
            SurfaceImage(
                img.mesh, {p: x.astype(complex) for p, x in img.data.parts.items()}
            ),
            None,
            "must hold real numbers",
        ),
    ]:
        with pytest.raises(REFUSALS, match=match):
            read_images(imgs, given)
    fitted = SurfaceMasker(surface_mask()).fit().set_params(mask_img=None)
    assert read_images(img, fitted).X.shape == (4, 9 - 1)


# Plain arrays


def test_arrays(rng):
    X = rng.standard_normal((6, 3)).astype(np.float32)
    X[2, 1] = np.nan
    images = read_images(X)
    assert_array_equal(images.X, X)
    assert images.X.dtype == np.float64
    assert_array_equal(images.usable, [True, False, True])
    assert images.space == FeatureSpace(None, 3)
    table = read_images(pd.DataFrame(X, columns=["Fz", "Cz", 7]))
    assert_array_equal(table.X, X)
    assert table.space == FeatureSpace(["Fz", "Cz", "7"], 3)
    doubles = rng.standard_normal((6, 3))
    kept = doubles.copy()
    standardize(read_images(doubles).X, None, np.arange(6) % 2)
    assert_array_equal(doubles, kept)


def test_what_is_no_array(rng, mask):
    X = rng.standard_normal((6, 3))
    for imgs, given, match in [
        (X[0], None, r"shape \(n_images, n_features\); got \(3,\)"),
        (X[:1], None, "two or more rows"),
        (X[:, :0], None, r"got \(6, 0\)"),
        (X + 1j, None, "real numbers.*complex128"),
        (pd.DataFrame({"a": [1, 2], "b": ["x", "y"]}), None, "real numbers alone"),
        (sparse.csr_array(X), None, "sparse or a masked array"),
        (np.ma.masked_less(X, 0), None, "sparse or a masked array"),
        (X, mask, "mask_img is for images"),
        (np.full((6, 3), "a"), None, "must hold real numbers alone"),
        (np.ones((6, 3)), None, "None of the 3 features can be decoded"),
    ]:
        with pytest.raises(REFUSALS, match=match):
            read_images(imgs, given)


# Centres


def test_centres(bold, mask):
    images = read_images(bold, mask)
    assert process_positions(images, None) is images.space
    wanted = np.zeros(GRID)
    wanted[0, :2] = wanted[2, 2] = 1  # some of them outside of the mask
    rounded = AFFINE + 1e-5
    rounded[3] = AFFINE[3]
    centres = process_positions(images, volume(wanted, rounded))
    assert centres == VolumeSpace(wanted > 0, AFFINE)
    with pytest.raises(ValueError, match="process_mask_img is on another grid"):
        process_positions(images, volume(wanted, np.eye(4)))
    with pytest.raises(ValueError, match="process_mask_img is empty"):
        process_positions(images, volume(wanted * 0))


def test_centres_on_surfaces_and_features():
    images = read_images(surface(4), surface_mask())
    wanted = surface_mask((0, 0, 1, 1, 0, 0), (0,) * 8)
    centres = process_positions(images, wanted)
    assert centres.n_positions == 2
    assert_array_equal(centres.mask["left"], wanted.data.parts["left"] > 0)
    assert_array_equal(centres.coordinates["right"], images.space.coordinates["right"])
    with pytest.raises(ValueError, match="process_mask_img is on another mesh"):
        process_positions(images, surface(flip=True))
    features = read_images(np.arange(6.0).reshape(3, 2))
    assert process_positions(features) is features.space
    with pytest.raises(TypeError, match="process_mask_img is for images"):
        process_positions(features, wanted)


# Standardizing

BY_RUN = np.array([2, 1, 2, 1, 3, 3, 1, 2, 3])  # neither sorted nor in blocks
CODES = np.array([0, 0, 1, 1, 0, 1, 1, 0, 0])


def test_scores_are_those_of_nilearn_in_the_order_of_the_rows(rng):
    X = 100 + rng.standard_normal((9, 5)) * [1, 2, 3, 1e-9, 1e20]
    scores = standardize(X.copy(), BY_RUN, CODES)
    for run in (1, 2, 3):
        rows = X[BY_RUN == run][:, :3]
        expected = clean(rows, detrend=False, standardize="zscore_sample", filter=False)
        assert_allclose(scores[BY_RUN == run][:, :3], expected, rtol=1e-9, atol=1e-9)
        assert_allclose(
            scores[BY_RUN == run][:, [0, 1, 2, 4]].std(axis=0, ddof=1),
            1,
            rtol=1e-9,
            atol=0,
        )
    whole = standardize(X.copy(), None, CODES)
    expected = (X - X.mean(axis=0)) / X.std(axis=0, ddof=1)
    assert_allclose(whole[:, :3], expected[:, :3], rtol=1e-9, atol=1e-9)
    assert_allclose(
        standardize(X[:, :3] * 1e-25, BY_RUN, CODES),
        scores[:, :3],
        rtol=1e-9,
        atol=1e-9,
    )


def test_standardize_in_blocks_and_in_place(rng, monkeypatch):
    X = rng.standard_normal((9, 5))
    expected = standardize(X.copy(), BY_RUN, CODES)
    monkeypatch.setattr("mvpa_kfda.data.volumes.SCORED_AT_ONCE", 7)
    assert standardize(X, BY_RUN, CODES) is X
    assert_array_equal(X, expected)


def test_standardize_what_cannot_be(rng):
    X = rng.standard_normal((9, 6))
    X[:, 0] = 100.1
    X[4, 1] = np.nan
    X[BY_RUN == 2, 2] = 0.1
    X[:, 3] = 1000.1 * BY_RUN  # tells runs apart, and nothing within them
    X[:, 4] = 0
    assert_array_equal(standardize(X[:, [3, 4]], BY_RUN, CODES), 0)
    scores = standardize(X.copy(), BY_RUN, CODES)
    assert_array_equal(scores[:, [0, 3, 4]], 0)
    assert_array_equal(scores[BY_RUN == 3, 1], 0)
    assert_array_equal(scores[BY_RUN == 2, 2], 0)
    assert np.isfinite(scores).all()
    assert_array_equal(usable_columns(scores), [False, True, True, False, False, True])
    # Means of exactly 0 make nilearn divide 0 by 0.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scores = standardize(np.array([[-1.0], [1.0]]), None, np.arange(2))
        standardize(X, BY_RUN, CODES)
    assert_allclose(scores.ravel(), [-(0.5**0.5), 0.5**0.5], rtol=1e-12, atol=0)


def test_groups_of_one_class(rng):
    X = rng.standard_normal((9, 5))
    patients = np.array(["ann", "bob", "ann", "cat", "bob", "dan", "cat", "eve", "dan"])
    codes = np.isin(patients, ["ann", "eve"]).astype(int)
    assert_array_equal(
        standardize(X.copy(), patients, codes), standardize(X.copy(), None, codes)
    )
    mixed = CODES.copy()
    mixed[BY_RUN == 3] = 1
    with pytest.raises(ValueError, match="The group 3 holds images of a single class"):
        standardize(X, BY_RUN, mixed)
    with pytest.raises(ValueError, match=r"The group 'a' \(and 1 more\) holds"):
        standardize(X, np.array(list("abcccdddd")), CODES)


# Labels


@pytest.fixture
def table():
    return pd.DataFrame(
        {
            "label": ["face", "house", "face", "house"],
            "run": [1, 1, 2, 2],
            "speed": [1.0, 0.0, 1.0, 0.0],
            "subject": pd.Categorical(["b", "a", "b", "a"]),
            "gaps": ["x", None, "y", "z"],
        },
        index=[7, 3, 5, 1],
    )


def test_labels_are_arrays_or_columns_of_tables(table, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    words, runs = table["label"].tolist(), [1, 1, 2, 2]
    table.drop(columns="gaps").to_csv(tmp_path / "l.tsv.gz", sep="\t", index=False)
    path = tmp_path / "of all.csv"
    table.to_csv(path, index=False)
    for y, groups, confounds in (
        (words, np.array(runs), [1, 0, 1, 0]),
        (np.array(words), table["run"][::-1][::-1], (table, "speed")),
        (table["label"].astype("category"), (path, "run"), [[1], [0], [1], [0]]),
        ((table, "label"), "run", "speed"),
        (("~/l.tsv.gz", "label"), "run", ["speed"]),
        (tuple(words), (table, "run"), table["speed"]),
    ):
        trials, given, kept, record = read_labels(y, groups, confounds, n_images=4)
        assert_array_equal(trials.y, words)
        assert_array_equal(trials.groups, runs)
        assert_array_equal(trials.confounds.columns[:, 0], [1, 0, 1, 0])
        assert given[0].tolist() == words
        assert (given[0].dtype.kind, given[1].dtype.kind) == ("U", "i")
        assert given[1].tolist() == runs
        assert (kept, record) == (slice(None), {})
    y, groups = read_labels((table, "run"), "subject")[1]
    assert (y.tolist(), groups.tolist()) == (runs, ["b", "a", "b", "a"])
    assert read_labels(words)[1][1] is None


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"y": 3}, "y must hold one value per image; got 3"),
        ({"y": None}, "y=None holds no labels"),
        ({"y": Path("l.tsv")}, r"'l\.tsv'.* holds no labels.*\(table, column\)"),
        ({"y": ["a", None]}, "y is missing"),
        ({"y": ["a", 1]}, "y holds values of type int, str"),
        ({"groups": [*RUNS[1:], np.nan]}, "groups is missing"),
        ({"groups": "run"}, "groups='run' names a column, but y is not"),
        ({"y": TABLE}, "y is a DataFrame; pass one column"),
        ({"y": (TABLE, "wort")}, "'wort', given for y, is not a column of the table"),
        ({"y": (TABLE, "gaps")}, r"y: the column 'gaps' is empty in 1 of 8"),
        ({"y": (TABLE, "word"), "groups": "rnu"}, "'rnu', given for groups, is not a"),
        ({"y": (TABLE, "word"), "groups": "gaps"}, "groups: the column 'gaps' is empt"),
        ({"y": ("nowhere.tsv", "a")}, "nowhere.tsv' is no file"),
        ({"y": ("labels.txt", "word")}, r"whose name ends in \.tsv or \.csv"),
        ({"n_images": 9}, "y must hold one value per"),
        ({"classes": "ab"}, "'classes': 'ab'"),
        ({"classes": ["a", "d"]}, "classes names 'd', which is no label in y"),
        ({"classes": {"x": "a", "y": ["a"]}}, "classes names the label 'a' twice"),
    ],
)
def test_labels_and_classes_that_are_refused(given, match):
    with pytest.raises(REFUSALS, match=match):
        read_labels(**{"y": Y} | given)


def test_tables_that_are_refused(table, tmp_path):
    twice = pd.concat([table, table["run"]], axis=1)
    with pytest.raises(ValueError, match="'run', given for y, names more than one col"):
        read_labels((twice, "run"))
    for name, content in {
        "empty.tsv": b"",
        "ragged.csv": b"a,b\n1,2\n1,2,3\n",
        "binary.tsv": bytes(range(128, 256)),
        "zipped.csv.gz": b"a,b\n1,2\n",
        "commas.tsv": b"a,b\n1,2\n",
    }.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError, match=f"y: '.*{name}' is no table"):
            read_labels((tmp_path / name, "a"))


# Regions


@pytest.fixture
def atlas(rng):
    return volume(rng.integers(0, 4, GRID).astype(np.int16) * 5)


@pytest.fixture
def lut():
    names = ["V3", "none", "V1", "V99", "V2"]
    return pd.DataFrame({"index": [15, 0, 5, 99, 10], "name": names})


def test_regions_of_a_volume(bold, mask, atlas, lut, tmp_path):
    images, regions = read_regions(bold, atlas)
    labels = np.asarray(atlas.dataobj)
    assert_array_equal(images.space.mask, labels != 0)
    assert_array_equal(regions.labels, labels[labels != 0])
    assert regions.ids.tolist() == [5, 10, 15]
    assert regions.names.tolist() == ["5", "10", "15"]
    assert regions.base is images.space
    assert_array_equal(
        images.X, apply_mask(bold, new_img_like(atlas, (labels > 0).astype(np.uint8)))
    )
    means = NiftiLabelsMasker(atlas, lut=lut, standardize=None, reports=False)
    expected = means.fit(bold).transform(bold)
    for number, region in enumerate(regions.ids):
        mean = images.X[:, regions.labels == region].mean(axis=1)
        assert_allclose(mean, expected[:, number], rtol=1e-12, atol=0)

    lut.to_csv(tmp_path / "lut.tsv", sep="\t", index=False)
    nibabel.save(atlas, tmp_path / "atlas.nii.gz")
    path = tmp_path / "atlas.nii.gz"
    for given, names in (
        ((path, None, tmp_path / "lut.tsv"), ["V1", "V2", "V3"]),
        ((Bunch(maps=str(path), lut=lut, labels=["a"]),), ["V1", "V2", "V3"]),
        ((Bunch(maps=atlas), None, None), ["5", "10", "15"]),
        ((volume(np.asarray(atlas.dataobj, float)),), ["5", "10", "15"]),
    ):
        images, regions = read_regions(bold, *given)
        assert regions.names.tolist() == names
        assert images.space.n_positions == np.count_nonzero(labels)

    images, regions = read_regions(bold, atlas, mask, lut)
    within = np.where(np.asarray(mask.dataobj), labels, 0)
    assert_array_equal(regions.labels, within[within != 0])
    assert_array_equal(
        images.X, apply_mask(bold, volume((within > 0).astype(np.uint8)))
    )
    assert regions.names.tolist() == ["V1", "V2", "V3"]


def test_regions_that_a_table_lacks(bold, atlas, lut):
    match = (
        r"lut has no name for 2 of 3 regions \(ids 10, 15\); the first is called 'un"
    )
    lacking = lut[lut["index"] != 10].replace("V3", None)
    with pytest.warns(UserWarning, match=match) as caught:
        _, regions = read_regions(bold, atlas, None, lacking)
    assert len(caught) == 1
    assert regions.names.tolist() == ["V1", "unknown 10", "unknown 15"]
    many = volume(np.arange(np.prod(GRID), dtype=np.int32).reshape(GRID))
    with pytest.warns(UserWarning, match=r"115 of 119 .*\(ids 1, 2, 3, 4, 6, \.\.\.\)"):
        read_regions(bold, many, None, lut)
    match = (
        "no region of labels_img is in lut: ids 5, 10, 15 against index 101, 102: is "
        "it the table of another atlas"
    )
    other = pd.DataFrame({"index": [101, 102], "name": ["a", "b"]})
    with pytest.raises(ValueError, match=match):
        read_regions(bold, atlas, None, other)


@pytest.mark.parametrize("background", ["Background", b"background"])
def test_names_of_an_atlas_without_table(bold, atlas, background):
    maps = volume(np.asarray(atlas.dataobj) // 5)
    names = [background, "V1", b"V2", "V3"]
    for labels in (names, np.array(names, object), pd.Series(names, index=range(4, 8))):
        _, regions = read_regions(bold, Bunch(maps=maps, labels=labels))
        assert regions.names.tolist() == ["V1", "V2", "V3"]
    other = pd.DataFrame({"index": [1, 2, 3], "name": list("abc")})
    _, regions = read_regions(bold, Bunch(maps=maps, labels=names), None, other)
    assert regions.names.tolist() == list("abc")
    for labels in (None, []):
        _, regions = read_regions(bold, Bunch(maps=maps, labels=labels))
        assert regions.names.tolist() == ["1", "2", "3"]


@pytest.mark.parametrize(
    ("step", "labels"),
    [
        (1, ["V1", "V2", "V3"]),  # perhaps without one for the background
        (1, ["V0", "V1", "V2", "V3"]),
        (1, ["Background", "V1", "V2"]),
        (1, ["Background", "V1", "V2", "V3", "V4"]),
        (5, ["Background", "V1", "V2", "V3"]),  # the numbers are 5, 10, 15
    ],
)
def test_names_that_fit_in_two_ways(bold, atlas, step, labels):
    maps = volume(np.asarray(atlas.dataobj) // 5 * step)
    match = (
        rf"The atlas lists {len(labels)} names, the first '{labels[0]}', and has 3 reg"
        rf"ions \({step}, {2 * step}, {3 * step}\), .* Pass lut, a table with columns"
    )
    with pytest.raises(ValueError, match=match):
        read_regions(bold, Bunch(maps=maps, labels=labels))


def test_regions_on_another_grid(bold, rng):
    affine = AFFINE @ np.diag([0.5, 0.5, 0.5, 1])
    data = np.repeat(rng.integers(0, 3, (10, 12, 8)).astype(np.int16), 1, axis=0)
    data[0, 0, 1] = 9  # not the nearest of any voxel
    fine = volume(data, affine)
    with (
        pytest.warns(
            UserWarning, match=r"labels_img, shape \(10, 12, 8\) and .* resampled"
        ),
        pytest.warns(UserWarning, match="1 of 3 regions hold no voxel .*: '9'"),
    ):
        images, regions = read_regions(bold, fine)
    with pytest.warns(UserWarning, match="labels were removed"):
        masker = NiftiLabelsMasker(fine, standardize=None, reports=False).fit(bold)
    expected = masker.labels_img_.get_fdata()
    assert_array_equal(images.space.mask, expected > 0)
    assert_array_equal(regions.labels, expected[expected > 0])
    assert regions.ids.tolist() == [1, 2, 9]
    assert_array_equal(images.space.affine, AFFINE)


@pytest.mark.parametrize("distance", [-300, 300])
def test_regions_elsewhere(bold, atlas, distance):
    """Nilearn refuses this to one side, and gives zeros to the other."""
    apart = volume(np.asarray(atlas.dataobj), AFFINE + np.eye(4, k=3) * distance)
    match = (
        r"No voxel of labels_img lies in the images: their affines place them apart "
        rf"\(shape .* {60 + distance}\. .*, against shape .* 60\. .*Align them first"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # that it was resampled
        with pytest.raises(ValueError, match=match):
            read_regions(bold, apart)


def test_regions_of_surfaces():
    img = surface(4)
    atlas = SurfaceImage(
        img.mesh,
        {"left": np.array([0, 1, 1, 2, 2, 0]), "right": np.array([3] * 4 + [0] * 4)},
    )
    lut = pd.DataFrame({"index": [0, 1, 2, 3], "name": ["Background", "a", "b", "c"]})
    images, regions = read_regions(img, atlas, None, lut)
    data = np.concatenate(list(img.data.parts.values())).T
    labels = np.concatenate(list(atlas.data.parts.values()))
    assert_array_equal(images.X, data[:, labels > 0])
    assert_array_equal(regions.labels, labels[labels > 0])
    means = SurfaceLabelsMasker(atlas, lut=lut, standardize=None, reports=False).fit()
    assert regions.names.tolist() == list(means.region_names_.values())
    assert_allclose(
        images.X[:, regions.labels == 3].mean(axis=1),
        means.transform(img)[:, 2],
        rtol=1e-12,
        atol=0,
    )
    inside = labels * np.concatenate(list(surface_mask().data.parts.values()))
    masker = SurfaceMasker(surface_mask(), standardize=None, reports=False).fit()
    for given in (surface_mask(), masker):
        images, regions = read_regions(img, atlas, given)
        assert_array_equal(regions.labels, inside[inside > 0])
        assert_array_equal(images.X, data[:, inside > 0])
        assert_array_equal(images.space.mask["right"], inside[6:] > 0)


def test_regions_of_arrays(rng):
    X = rng.standard_normal((6, 5))
    table = pd.DataFrame(X, columns=list("abcde"))
    lut = pd.DataFrame({"index": [4, 7], "name": ["four", "seven"]})
    images, regions = read_regions(table, np.array([7, 0, 4, 4, 7]), lut=lut)
    assert_array_equal(images.X, X[:, [0, 2, 3, 4]])
    assert images.space == FeatureSpace(list("acde"), 4)
    assert regions.names.tolist() == ["four", "seven"]
    assert regions.labels.tolist() == [7, 4, 4, 7]
    images, regions = read_regions(X, pd.Series(["B", "A", "background", "", "A"]))
    assert regions.names.tolist() == ["A", "B"]
    assert regions.labels.tolist() == [2, 1, 1]
    assert_array_equal(images.X, X[:, [0, 1, 4]])


def test_what_is_no_atlas(bold, mask, atlas, lut):
    X, img = np.arange(12.0).reshape(4, 3) ** 2, surface(4)
    outside = np.zeros(GRID, np.uint8)
    outside[0, 0, 0] = 1
    for given, match in [
        ((bold, math_img("img / 2", img=atlas)), "whole numbers.*e.g. 2.5"),
        ((bold, volume(np.zeros(GRID))), "No region of labels_img holds"),
        ((bold, mask, volume(outside)), "No region of labels_img holds"),
        ((bold, bold), "labels_img is imgs"),
        ((bold, np.ones(GRID)), "labels_img is a ndarray but imgs are vol"),
        ((bold, surface()), "labels_img is a SurfaceImage but imgs are vol"),
        ((bold, NiftiLabelsMasker(atlas)), "labels_img is a NiftiLabelsM"),
        ((NiftiMasker(mask), atlas), "imgs is a NiftiMasker"),
        ((bold, atlas, None, lut[["name"]]), "lut needs the columns"),
        ((bold, atlas, None, {5: "V1"}), "lut must be .* index and name; g"),
        ((bold, atlas, None, ["V1"]), "lut must be a DataFrame .* got list"),
        ((bold, Bunch(maps=atlas, lut=3)), "lut must be .* got int"),
        (
            (bold, atlas, None, pd.concat([lut, lut])),
            "lut names the region 15 more than once",
        ),
        ((img, atlas), "labels_img must be a .*, as imgs are surfaces; got Nif"),
        ((img, surface(flip=True)), "labels_img is on another mesh"),
        ((img, surface()), "labels_img must hold whole numbers"),
        ((X, [1, 2]), r"each of the 3 features, shape \(3,\); got \(2,"),
        ((X, atlas), "labels_img is a Nifti1Image but imgs is an array"),
        ((X, [1, 2, 0], mask), "mask_img is for images"),
        ((X, ["", "", ""]), "No region"),
        ((X, ["a", None, "b"]), "labels_img is missing"),
    ]:
        with pytest.raises(REFUSALS, match=match):
            read_regions(*given)


def test_columns_that_are_constant_within_a_run_are_among_the_usable_ones(rng):
    X, runs = rng.standard_normal((8, 4)), [np.arange(4), np.arange(4, 8)]
    X[:, 0], X[runs[1], 1] = 0, 0
    usable = np.array([False, True, True, True])
    assert_array_equal(flat_within_runs(X, usable, runs), [False, True, False, False])
    X[runs[1]] = 0
    with pytest.raises(ValueError, match="Nothing varies in the group of image 4"):
        flat_within_runs(X, usable, runs)
