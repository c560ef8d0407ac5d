"""What searchlights take in: labels and images, read as plain NumPy and nilearn do."""

import numpy as np
import pandas as pd
import pytest
from nilearn.maskers import NiftiMasker, SurfaceMasker
from nilearn.masking import apply_mask
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from mvpa_kfda import Betas
from mvpa_kfda.data.images import (
    open_images,
    opened,
    process_positions,
    read_images,
    read_labels,
)
from tests import build

SHAPE, N = (4, 3, 5), 8
MASK = np.random.default_rng(1).random(SHAPE) < 0.7
MASK_IMG = build.mask(MASK)
DATA = 100 + np.random.default_rng(0).standard_normal((N, *SHAPE))
BOLD = build.volume(DATA)
Y = np.array(list("abcabcab"))
RUNS = np.repeat([1, 2], 4)
TABLE = pd.DataFrame({"word": Y, "run": RUNS, "speed": np.arange(N) * 1.0})


# ------------------------------------------------------------------------------- labels


def test_labels_are_arrays_or_columns_of_tables(tmp_path):
    TABLE.to_csv(tmp_path / "labels.tsv", sep="\t", index=False)
    path = tmp_path / "labels.tsv"
    for y, groups, confounds in (
        (Y, RUNS, np.arange(N)),
        (Y.tolist(), TABLE["run"][::-1][::-1], (TABLE, "speed")),
        (pd.Series(Y).astype("category"), (path, "run"), np.arange(N)),
        ((TABLE, "word"), "run", "speed"),
        ((str(path), "word"), "run", ["speed"]),
    ):
        trials, given, kept, record = read_labels(y, groups, confounds, n_images=N)
        assert_array_equal(trials.y, Y)
        assert_array_equal(trials.groups, RUNS)
        assert_array_equal(trials.confounds.columns[:, 0], np.arange(N))
        assert_array_equal(given[0], Y)
        assert (kept, record) == (slice(None), {})


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


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"y": None}, "y=None holds no labels"),
        ({"y": "labels.tsv"}, "y='labels.tsv' holds no labels"),
        ({"y": TABLE}, "y is a DataFrame; pass one column"),
        ({"y": (TABLE, "wort")}, "'wort', given for y, is not a column of the table"),
        ({"y": (TABLE.assign(word=None), "word")}, "'word' is empty in 8 of 8"),
        ({"y": ("labels.txt", "word")}, r"whose name ends in \.tsv or \.csv"),
        ({"groups": "run"}, "groups='run' names a column, but y is not"),
        ({"n_images": 9}, "y must hold one value per"),
        ({"classes": "ab"}, "'classes': 'ab'"),
        ({"classes": ["a", "d"]}, "classes names 'd', which is no label in y"),
        ({"classes": {"x": "a", "y": ["a"]}}, "classes names the label 'a' twice"),
    ],
)
def test_labels_and_classes_that_are_refused(given, match):
    with pytest.raises((TypeError, ValueError), match=match):
        read_labels(**{"y": Y} | given)


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


def test_volumes_of_any_form_are_masked_as_by_nilearn(tmp_path):
    expected = apply_mask(BOLD, MASK_IMG)
    BOLD.to_filename(tmp_path / "bold.nii.gz")
    MASK_IMG.to_filename(tmp_path / "mask.nii")
    masker = NiftiMasker(MASK_IMG, standardize=None).fit()
    singles = [build.volume(each) for each in DATA]
    halves = [build.volume(DATA[:3]), build.volume(DATA[3:])]
    for imgs in (BOLD, singles, halves, str(tmp_path / "*.nii.gz")):
        for mask_img in (MASK_IMG, tmp_path / "mask.nii", masker):
            images = read_images(imgs, mask_img)
            assert_allclose(images.X, expected, rtol=1e-6)
            assert_array_equal(images.space.mask, MASK)
            assert images.usable.all()
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
    with pytest.raises(ValueError, match=r"None of .* and \d+ are constant"):
        read_images(build.volume(0 * DATA + 1), MASK_IMG)


def test_surfaces_and_tables():
    left, right = DATA[:, 0].reshape(N, -1), DATA[:, 1, :2].reshape(N, -1)
    imgs, inside = build.surface(left, right), np.arange(15) % 4 > 0
    expected = np.hstack([left[:, inside], right])
    mask_img = build.surface(inside.astype(int), np.ones(10, int))
    for mask in (mask_img, SurfaceMasker(mask_img, standardize=None).fit()):
        images = read_images([imgs, imgs], mask)
        assert_allclose(images.X, np.vstack([expected] * 2), rtol=1e-6)
        assert images.space.n_positions == expected.shape[1]
    table = pd.DataFrame(left).add_prefix("x")
    images = read_images(table)
    assert_array_equal(images.X, left)
    assert images.space.columns()["feature"].tolist() == table.columns.tolist()


def test_centres_are_those_of_a_mask_also_outside_of_the_data():
    images, centres = read_images(BOLD, MASK_IMG), np.zeros(SHAPE)
    centres[1:3, 1] = 1
    space = process_positions(images, build.mask(centres))
    assert_array_equal(space.mask, centres > 0)
    assert process_positions(images) is images.space
    with pytest.raises(TypeError, match="features have no places"):
        process_positions(read_images(DATA[:, 0, 0]), build.mask(centres))


@pytest.mark.parametrize(
    ("imgs", "options", "match"),
    [
        (NiftiMasker(), {}, "imgs is a NiftiMasker; a masker holds no data"),
        (DATA[:, 0, 0], {"mesh": 3}, "mesh is for CIFTI images"),
        (build.volume(DATA[0]), {}, "is a single image"),
        (BOLD, {"mask_img": build.mask(MASK[1:])}, "mask_img is on another grid"),
        (BOLD, {"mask_img": build.mask(MASK, np.eye(4))}, "is on another grid"),
        (BOLD, {"mask_img": build.mask(0 * MASK)}, "mask_img is empty"),
        (BOLD, {"mask_img": build.volume(DATA[0])}, "must hold zeros and one other"),
        (BOLD, {"mask_img": "epi"}, "is a mask_strategy of nilearn"),
        (BOLD, {"mask_img": MASK}, "mask_img is an array, which has no affine"),
        ([BOLD, build.volume(DATA[:, 1:])], {}, r"imgs\[1\] is on another grid"),
        (build.volume(DATA + 1j), {}, "holds complex numbers"),
        ([], {}, "imgs is empty"),
        (
            DATA[:, 0, 0],
            {"mask_img": MASK_IMG},
            "mask_img is for images",
        ),
        (BOLD, {"mask_img": NiftiMasker()}, "NiftiMasker that is not fitted"),
        (BOLD, {"mask_img": SurfaceMasker()}, "it must be a NiftiMasker"),
        (sparse.eye_array(4), {}, "a sparse or a masked array"),
        (DATA, {}, r"must have shape \(n_images, n_features\); got \(8, 4, 3, 5\)"),
        (DATA[:1, 0, 0], {}, "real numbers alone, in two or more rows; got shape"),
        (DATA[:, 0, 0] * 1j, {}, "must hold real numbers alone"),
        (np.full((N, 3), "a"), {}, "must hold real numbers alone"),
    ],
)
def test_images_and_masks_that_are_refused(imgs, options, match):
    with pytest.raises((TypeError, ValueError), match=match):
        read_images(imgs, **options)
