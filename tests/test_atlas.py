"""Atlases: maps of probabilities, and what nilearn's fetchers return, with names."""

import itertools
import json
import warnings

import nibabel
import numpy as np
import pandas as pd
import pytest
from nibabel import Nifti1Image
from nilearn import datasets
from nilearn.image import resample_to_img
from nilearn.maskers import NiftiLabelsMasker
from nilearn.surface import SurfaceImage
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.utils import Bunch

import build
from mvpa_kfda import decode_regions, load_result
from mvpa_kfda.data.atlas import read_regions
from mvpa_kfda.data.neighbours import touching
from mvpa_kfda.data.space import RegionSpace, VolumeSpace, unpack_space

SHAPE = (5, 6, 4)
AFFINE = build.AFFINE
N_MAPS = 4


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def bold(rng):
    return build.volume(100 + rng.standard_normal((8, *SHAPE)))


@pytest.fixture
def values(rng):
    """Return maps from 0 to 1 (x, y, z, n_maps), half of them 0, with some ties."""
    data = rng.integers(-20, 21, (*SHAPE, N_MAPS)).clip(0) / 20
    data[0, 0, 0], data[1, 0, 0] = 0, 0.5
    return data


def build_maps(data):
    return Nifti1Image(data, AFFINE)


def members_of(regions):
    """Return which voxels of the grid are in every region, (n_regions, n_voxels)."""
    whole = np.zeros((regions.n_positions, regions.base.mask.size), bool)
    whole[:, regions.base.mask.ravel()] = regions.membership.toarray()
    return whole


def painted(regions):
    """Return the number of the region of every voxel of the grid, 0 for none."""
    whole = np.zeros(regions.base.mask.size, int)
    whole[regions.base.mask.ravel()] = regions.labels
    return whole


# ------------------------------------------------------------------ which voxels


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_highest_map_has_the_voxel(bold, values, dtype):
    images, regions = read_regions(bold, Nifti1Image(values.astype(dtype), AFFINE))

    flat = values.reshape(-1, N_MAPS)
    expected = np.where(flat.any(axis=1), flat.argmax(axis=1) + 1, 0)
    assert_array_equal(painted(regions), expected)
    assert painted(regions)[np.ravel_multi_index((1, 0, 0), SHAPE)] == 1  # of a tie
    assert regions.members is None
    assert regions.names.tolist() == ["1", "2", "3", "4"]
    data = bold.get_fdata().reshape(-1, 8).T
    assert_array_equal(images.X, data[:, expected > 0])


@pytest.mark.filterwarnings("ignore:1 of 4 regions hold no voxel")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("threshold", [0.05, 0.3, 0.55, 0.7, 1])
def test_all_voxels_at_or_above_the_threshold(bold, values, dtype, threshold):
    atlas = Nifti1Image(values.astype(dtype), AFFINE)

    _, regions = read_regions(bold, atlas, threshold=threshold)

    # In twentieths, where nothing is rounded.
    flat = np.rint(20 * values.reshape(-1, N_MAPS))
    inside = flat >= round(20 * threshold)
    assert inside.sum(axis=1).max() > 1
    assert_array_equal(members_of(regions), inside.T)
    best = np.where(inside.any(axis=1), flat.argmax(axis=1) + 1, 0)
    assert_array_equal(painted(regions), best)


def saved_again(data, path):
    """Return an image of whole numbers whose floats were written with its header."""
    nibabel.save(Nifti1Image(data, AFFINE), path)
    image = nibabel.load(path)
    nibabel.save(Nifti1Image(image.get_fdata(), image.affine, image.header), path)
    return nibabel.load(path)


@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.uint16, np.float32])
def test_labels_saved_again_from_floats(bold, rng, tmp_path, dtype, single):
    """With a last axis of length one they are labels too, and no map."""
    most = 120 if dtype is np.uint8 else 12175  # as FreeSurfer has
    labels = rng.choice([0, 3, 7, most], SHAPE).astype(dtype)
    axes = (*SHAPE, 1) if single else SHAPE
    again = saved_again(labels.reshape(axes), tmp_path / "atlas.nii")
    if dtype is not np.float32:
        assert np.ptp(again.get_fdata() - labels.reshape(axes)) > 1e-4
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _, regions = read_regions(bold, again)
    _, expected = read_regions(bold, Nifti1Image(labels, AFFINE))
    assert regions == expected
    masker = NiftiLabelsMasker(again.slicer[..., 0] if single else again, reports=False)
    assert masker.fit().transform(bold).shape == (8, len(regions.ids))


def test_labels_copied_from_a_file_of_16_bits(bold, rng, tmp_path):
    """Nothing tells the step of the file: they are rounded, with a warning."""
    labels = rng.choice([0, 3, 7], SHAPE).astype(np.uint16)
    values = saved_again(labels, tmp_path / "atlas.nii").get_fdata()
    with pytest.warns(UserWarning, match=r"are nearly whole, e.g. 2.99995, and they"):
        _, regions = read_regions(bold, Nifti1Image(values, AFFINE))
    assert_array_equal(painted(regions), labels.ravel())
    single = labels.astype(np.float32) * np.float32(1 + 1e-7)
    _, regions = read_regions(bold, Nifti1Image(single, AFFINE))
    assert_array_equal(painted(regions), labels.ravel())


def test_several_images_of_labels_saved_again(bold, rng, tmp_path):
    labels = rng.integers(1, 9, (*SHAPE, 2)).astype(np.uint16)
    with pytest.raises(ValueError, match="holds 2 images of labels"):
        read_regions(bold, saved_again(labels, tmp_path / "atlas.nii"))


@pytest.mark.parametrize("scale", [1, 20, 240, 1e6])
@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.float32])
def test_maps_of_statistics_are_no_labels(bold, rng, tmp_path, dtype, scale):
    """Even if they are saved in whole numbers with a step of nearly one."""
    nibabel.save(Nifti1Image(np.zeros(SHAPE, dtype), AFFINE), tmp_path / "zero.nii")
    header = nibabel.load(tmp_path / "zero.nii").header
    values = scale * rng.random(SHAPE)
    nibabel.save(Nifti1Image(values, AFFINE, header), tmp_path / "map.nii")
    with pytest.raises(ValueError, match=r"must hold whole numbers.* rounded first"):
        read_regions(bold, tmp_path / "map.nii")


def test_scaled_whole_numbers(bold, values, tmp_path):
    """As files hold them, with a slope in single precision, which is below 0.01."""
    whole = np.rint(100 * values).astype(np.int16)
    path = tmp_path / "atlas.nii"
    nibabel.save(Nifti1Image(whole, AFFINE), path)
    content = bytearray(path.read_bytes())
    content[112:116] = np.float32(0.01).tobytes()  # scl_slope in the header
    path.write_bytes(content)
    assert 0 < np.abs(nibabel.load(path).get_fdata() - values).max() < 1e-7
    _, regions = read_regions(bold, path, threshold=0.7)
    _, expected = read_regions(bold, build_maps(values), threshold=0.7)
    assert regions == expected


def test_the_unit_is_that_of_the_atlas(bold, values):
    percent = Nifti1Image(np.rint(100 * values).astype(np.uint8), AFFINE)
    _, one = read_regions(bold, Nifti1Image(values, AFFINE), threshold=0.25)
    _, other = read_regions(bold, percent, threshold=25)
    assert one == other
    match = r"atlas_threshold=0\.25 leaves nothing out: .* from 5 to 100\. Is it in"
    with pytest.warns(UserWarning, match=match):
        read_regions(bold, percent, threshold=0.25)
    match = r"No voxel of labels_img reaches atlas_threshold=25: .* from 0 to 1\."
    with pytest.raises(ValueError, match=match):
        read_regions(bold, Nifti1Image(values, AFFINE), threshold=25)


def test_negative_and_missing_values_are_zero(bold, values):
    odd = values - 0.5
    expected = np.maximum(odd, 0)
    odd[2, 2, 2], expected[2, 2, 2] = np.nan, 0
    odd[2, 3, 2, 1], expected[2, 3, 2, 1] = np.inf, 0
    for threshold in (None, 0.2):
        _, regions = read_regions(bold, build_maps(odd), threshold=threshold)
        _, same = read_regions(bold, build_maps(expected), threshold=threshold)
        assert regions == same


def test_regions_that_do_not_overlap_are_labels(bold):
    labels = np.arange(np.prod(SHAPE)).reshape(SHAPE) // 40 + 1
    maps = np.stack([labels == k for k in (1, 2, 3)], axis=3) * 0.5
    _, regions = read_regions(bold, build_maps(maps), threshold=0.5)
    _, same = read_regions(bold, build_maps(labels.astype(float)))
    assert regions == same
    assert regions.members is None


@pytest.mark.parametrize("threshold", [None, 0.4])
def test_one_map(bold, values, threshold):
    maps = build_maps(values[..., :1])
    _, regions = read_regions(bold, maps, threshold=threshold)
    inside = values[..., 0] >= (0.4 if threshold else 0.01)
    assert_array_equal(regions.base.mask, inside)
    assert regions.ids.tolist() == [1]


def test_labels_may_have_a_fourth_axis(bold):
    """As those of Yeo et al. have in nilearn."""
    labels = np.arange(np.prod(SHAPE)).reshape(*SHAPE, 1) // 40 * 2.0
    _, regions = read_regions(bold, build_maps(labels))
    assert regions.ids.tolist() == [2, 4]


@pytest.mark.parametrize("threshold", [None, 0.3])
def test_maps_on_another_grid(bold, rng, threshold):
    """All maps at once are what nilearn resamples, linearly."""
    affine = AFFINE @ np.diag([0.6, 0.6, 0.6, 1])
    values = rng.random((10, 12, 8, 3)).astype(np.float32)
    fine = Nifti1Image(values, affine)
    like = Nifti1Image(np.zeros(SHAPE), AFFINE)

    match = r"labels_img, shape \(10, 12, 8\) .* linear interpolation of each map\."
    with pytest.warns(UserWarning, match=match):
        _, regions = read_regions(bold, fine, threshold=threshold)

    moved = resample_to_img(fine, like, interpolation="linear").get_fdata()
    moved = moved.reshape(-1, 3)
    best = moved.argmax(axis=1) + 1
    if threshold is None:
        assert_array_equal(painted(regions), np.where(moved.max(axis=1) > 0, best, 0))
    else:
        assert_array_equal(members_of(regions), (moved >= threshold).T)
        inside = moved.max(axis=1) >= threshold
        assert_array_equal(painted(regions), np.where(inside, best, 0))


def test_maps_elsewhere(bold, values):
    apart = Nifti1Image(values, AFFINE + np.eye(4, k=3) * 300)
    with pytest.raises(ValueError, match="No voxel of labels_img lies in the images"):
        read_regions(bold, apart)


def test_masks_and_empty_regions(bold, values):
    inside = np.zeros(SHAPE, bool)
    inside[:3] = True
    values[:3, ..., 2] = 0
    with pytest.warns(UserWarning, match="1 of 4 regions hold no voxel .* 'three'"):
        _, regions = read_regions(
            bold,
            Bunch(maps=build_maps(values), labels=["one", "two", "three", "four"]),
            build.mask(inside),
            threshold=0.3,
        )
    _, whole = read_regions(bold, build_maps(values), threshold=0.3)
    assert_array_equal(members_of(regions), members_of(whole) & inside.ravel())


@pytest.mark.parametrize("threshold", [None, 0.3])
def test_maps_of_surfaces(rng, threshold):
    imgs = build.surface(rng.standard_normal((8, 7)), rng.standard_normal((8, 5)))
    left, right = (rng.integers(-9, 10, (3, n)).clip(0) / 10 for n in (7, 5))
    atlas = build.surface(left, right)

    _, regions = read_regions(imgs, atlas, threshold=threshold)

    both = np.concatenate([left, right], axis=1)
    inside = both > 0 if threshold is None else both > 0.25
    reached = inside.any(axis=0)
    assert_array_equal(regions.base.joined_mask, reached)
    assert_array_equal(regions.labels, both.argmax(axis=0)[reached] + 1)
    if threshold is not None:
        assert_array_equal(regions.membership.toarray(), inside[:, reached])


# ---------------------------------------------------------------- regions that overlap


def test_regions_hold_what_has_their_label(rng):
    base = VolumeSpace(np.ones((10, 2, 2)), np.eye(4))
    labels, ids = rng.integers(0, 4, 40) * 10, np.array([30, 10, 99, 20])
    space = RegionSpace(list("abcd"), ids, base, labels)
    assert_array_equal(space.membership.toarray(), labels == ids[:, np.newaxis])
    assert RegionSpace([], [], base, 0 * labels).membership.shape == (0, 40)


def test_overlapping_regions_in_space():
    base = VolumeSpace(np.ones((6, 1, 1)), np.eye(4))
    members = [[0, 0, 1, 1, 2, 3], [0, 1, 1, 2, 3, 5]]
    space = RegionSpace(list("abcd"), [1, 2, 3, 4], base, [1, 2, 2, 3, 0, 4], members)

    # a and b share voxel 1, b and c are neighbours, d is alone.
    assert touching(space).T.tolist() == [[0, 1], [1, 2]]
    assert space.points[:, 0].tolist() == [0.5, 1.5, 3, 5]
    img = space.to_img([10.0, 20, 30, 40]).get_fdata().ravel()
    assert img.tolist() == [10, 20, 20, 30, 0, 40]
    assert unpack_space(space.pack()) == space
    old = {k: v for k, v in space.pack().items() if k != "members"}
    assert unpack_space(old).members is None  # of files from before there were any
    assert unpack_space(old) != space


def test_touching_regions_by_hand(bold, values):
    _, regions = read_regions(bold, build_maps(values), threshold=0.9)
    inside = members_of(regions).reshape(N_MAPS, *SHAPE)
    expected = []
    for i, j in itertools.combinations(range(N_MAPS), 2):
        near = inside[i].copy()
        for axis in range(3):
            for step in (1, -1):
                moved = np.roll(inside[i], step, axis)
                edge = [slice(None)] * 3
                edge[axis] = 0 if step == 1 else -1
                moved[tuple(edge)] = False
                near |= moved
        if (near & inside[j]).any():
            expected.append([i, j])
    assert 0 < len(expected)
    assert touching(regions).T.tolist() == expected


@pytest.mark.parametrize("members", [[[0, 1]], [[0, 2], [0, 1]], [[0, 1], [-1, 0]]])
def test_members_that_are_refused(members):
    base = VolumeSpace(np.ones((3, 1, 1)), np.eye(4))
    with pytest.raises(ValueError, match="The members of regions"):
        RegionSpace(["a", "b"], [1, 2], base, [1, 1, 2], members)


def test_overlapping_regions_are_decoded_one_by_one(tmp_path, rng):
    """Each as a mask of its own would be."""
    y = np.tile(["face", "house"], 8)
    cube = rng.standard_normal((16, 3, 2, 2)) + (y == "face")[:, None, None, None]
    imgs, maps = build.volume(cube), rng.random((3, 2, 2, 3))
    options = {"cv": 4, "n_permutations": 9, "random_state": 0, "reg": 0.3}

    result = decode_regions(
        imgs, y, labels_img=build_maps(maps), atlas_threshold=0.5, **options
    )

    assert (maps >= 0.5).sum(axis=3).max() > 1
    for number in range(3):
        alone = decode_regions(
            imgs, y, labels_img=build.mask(maps[..., number] >= 0.5), **options
        )
        assert_array_equal(result.scores[number], alone.scores[0])
        assert_allclose(result.null[:, number], alone.null[:, 0], rtol=1e-6, atol=0)
        assert result.n_features[number] == (maps[..., number] >= 0.5).sum()
    result.save(tmp_path / "result.h5")
    assert load_result(tmp_path / "result.h5") == result
    best = np.where(maps.max(axis=3) >= 0.5, maps.argmax(axis=3), -1)
    img = result.to_img().get_fdata()
    assert_allclose(img[best >= 0], result.scores[best[best >= 0]], rtol=1e-6, atol=0)


# ---------------------------------------------------------------------- what is refused


@pytest.mark.parametrize("threshold", [0, -0.2, np.nan, np.inf, True, "25"])
def test_thresholds_that_are_refused(bold, values, threshold):
    match = r"'atlas_threshold': .* above zero"
    with pytest.raises((ValueError, TypeError), match=match):
        read_regions(bold, build_maps(values), threshold=threshold)


def test_threshold_without_maps(bold, rng):
    labels = np.arange(np.prod(SHAPE)).reshape(SHAPE) // 40
    surface = build.surface(rng.random((8, 5)), rng.random((8, 5)))
    flat = build.surface(np.arange(5), np.arange(5))
    one = Bunch(maps=build_maps(labels[..., None] * 1.0), atlas_type="deterministic")
    for imgs, atlas in (
        (bold, build_maps(labels * 1.0)),
        (bold, one),
        (surface, flat),
        (rng.random((8, 3)), [1, 1, 2]),
    ):
        with pytest.raises(ValueError, match="threshold is for maps of probabilities"):
            read_regions(imgs, atlas, threshold=0.3)


def test_images_of_labels_are_no_maps(bold, rng):
    """As those of Craddock et al., which nilearn calls probabilistic."""
    pile = [np.arange(np.prod(SHAPE)) // size + 1.0 for size in (60, 20, 7)]
    pile = np.stack([labels.reshape(SHAPE) for labels in pile], axis=3)
    for data in (pile, pile.astype(np.int16)):
        with pytest.raises(ValueError, match=r"3 images of labels .*index_img"):
            read_regions(bold, Bunch(maps=build_maps(data)))
    # Nor are these labels, though they are whole numbers in the same places.
    percent = rng.integers(1, 99, SHAPE)
    percent = np.stack([percent, 100 - percent], axis=3).astype(np.int16)
    _, regions = read_regions(bold, Nifti1Image(percent, AFFINE, dtype=np.int16))
    assert regions.ids.tolist() == [1, 2]


def test_maps_without_values(bold):
    with pytest.raises(ValueError, match="No map of labels_img has a value above 0"):
        read_regions(bold, build_maps(np.zeros((*SHAPE, 2))))


# --------------------------------------------------------- names, and nilearn's atlases


def test_tables_number_maps_from_1(bold, values):
    atlas, names = build_maps(values), list("abcd")
    _, regions = read_regions(
        bold, atlas, lut=pd.DataFrame({"index": [4, 3, 2, 1], "name": names})
    )
    assert regions.names.tolist() == names[::-1]
    from_0 = pd.DataFrame({"index": range(4), "name": names})
    with pytest.raises(ValueError, match="lut names the map 0, 'a'; maps count from 1"):
        read_regions(bold, atlas, lut=from_0)


@pytest.mark.parametrize(
    "labels",
    [
        list("abc"),
        ["Background", *"abc"],  # one of the maps has no name
        pd.DataFrame({"number": range(4), "area": list("abcd")}),
        pd.DataFrame({"first_name": list("abcd"), "last_name": list("efgh")}),
    ],
)
def test_names_of_maps_that_are_not_certain(bold, values, labels):
    with pytest.warns(UserWarning, match="which name is whose is not certain"):
        _, regions = read_regions(bold, Bunch(maps=build_maps(values), labels=labels))
    assert regions.names.tolist() == ["1", "2", "3", "4"]


@pytest.fixture
def store(tmp_path):
    """Return a function that writes files where nilearn looks for what it fetched."""

    def write(**files):
        for path, content in files.items():
            path = tmp_path / path
            path.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, str):
                path.write_text(content)
            else:
                nibabel.save(Nifti1Image(content, AFFINE), path)
        return {"data_dir": tmp_path, "verbose": 0}

    return write


LABELS = (np.arange(np.prod(SHAPE)).reshape(SHAPE) % 4).astype(np.int16)  # 0 to 3
MAPS = np.stack([LABELS == k for k in (1, 2, 3)], axis=3) * 0.5
XML = "<atlas><data>{}</data></atlas>"
FSL = XML.format(
    "".join(f'<label index="{i}">{name}</label>' for i, name in enumerate("CBA"))
)
JUELICH = XML.format(
    "".join(
        f'<label index="{i}">GM {name}</label>'
        for i, name in enumerate(["b L", "b R", "a"])
    )
)
TABLE = "index,name\n0,Background\n1,L A\n2,L B\n3,R A\n"


def fsl(name, data, labels=("HarvardOxford-Cortical", FSL)):
    """Return the files of an atlas of FSL."""
    folder = f"fsl/data/atlases/{name.partition('-')[0]}"
    return {
        f"{folder}/{name}.nii.gz": data,
        f"fsl/data/atlases/{labels[0]}.xml": labels[1],
    }


AAL_FILES = {
    "aal_3v2/AAL3/AAL3v1.nii": np.choose(LABELS, [0, 2, 5, 9]).astype(np.int16),
    "aal_3v2/AAL3/AAL3v1.xml": XML.format(
        "".join(
            f"<label><index>{i}</index><name>{name}</name></label>"
            for i, name in ((9, "nine"), (2, "two"), (5, "five"))  # not in order
        )
    ),
}
LUT = "1 A 1 1 1 0\n2 B 2 2 2 0\n3 C 3 3 3 0\n"
YEO = "yeo_2011/Yeo_JNeurophysiol11_MNI152/"
YEO_FILES = {
    f"{YEO}{name}": LABELS[..., None]
    for name in (
        "Yeo2011_7Networks_MNI152_FreeSurferConformed1mm.nii.gz",
        "Yeo2011_7Networks_MNI152_FreeSurferConformed1mm_LiberalMask.nii.gz",
        "Yeo2011_17Networks_MNI152_FreeSurferConformed1mm.nii.gz",
        "Yeo2011_17Networks_MNI152_FreeSurferConformed1mm_LiberalMask.nii.gz",
        "FSL_MNI152_FreeSurferConformed_1mm.nii.gz",
    )
} | {
    f"{YEO}Yeo2011_{n}Networks_ColorLUT.txt": f"index name r g b fs\n{LUT}"
    for n in (7, 17)
}
DIFUMO = "Component,Difumo_names,Yeo_networks7,GM\n1,A,V,1\n2,B,V,1\n3,C,V,1\n"
MSDL = "x,y,z,name, net name\n0,0,0, A,X\n0,0,0,B ,X\n0,0,0,C,Y\n"
SCHAEFER = "schaefer_2018/Schaefer2018_100Parcels_7Networks_order"
ALLEN = (
    "ALL_HC_unthresholded_tmaps",
    "RSN_HC_unthresholded_tmaps",
    "rest_hcp_agg__component_ica_",
)

#: Fetcher, its arguments, files that it finds, and the names of regions 1, 2, 3.
FETCHED = {
    "difumo": (
        {"dimension": 64},
        {
            "difumo_atlases/64/labels_64_dictionary.csv": DIFUMO,
            "difumo_atlases/64/2mm/maps.nii.gz": MAPS,
            "difumo_atlases/README.md": "",
        },
        "ABC",
    ),
    "msdl": (
        {},
        {
            "msdl_atlas/MSDL_rois/msdl_rois_labels.csv": MSDL.replace(", net", ",net"),
            "msdl_atlas/MSDL_rois/msdl_rois.nii": MAPS,
        },
        "ABC",
    ),
    "smith_2009": (
        {"dimension": 10},
        {"smith_2009/PNAS_Smith09_rsn10.nii.gz": 8 * MAPS - 2},
        "123",
    ),
    "allen_2011": (
        {},
        {f"allen_rsn_2011/allen_rsn_2011/{name}.nii.gz": MAPS for name in ALLEN},
        "123",
    ),
    "harvard_oxford prob": (
        {"atlas_name": "cort-prob-2mm"},
        fsl("HarvardOxford-cort-prob-2mm", (100 * MAPS).astype(np.uint8)),
        "CBA",
    ),
    "harvard_oxford": (
        {"atlas_name": "cort-maxprob-thr0-2mm"},
        fsl("HarvardOxford-cort-maxprob-thr0-2mm", LABELS),
        "CBA",
    ),
    "juelich prob": (
        {"atlas_name": "prob-2mm"},
        fsl("Juelich-prob-2mm", (100 * MAPS).astype(np.uint8), ("Juelich", JUELICH)),
        ["GM a", "GM b"],
    ),
    "juelich": (
        {"atlas_name": "maxprob-thr0-2mm"},
        fsl("Juelich-maxprob-thr0-2mm", LABELS, ("Juelich", JUELICH)),
        ["GM a", "GM b"],
    ),
    "pauli_2017 prob": (
        {"atlas_type": "probabilistic"},
        {
            "pauli_2017/pauli_2017_prob.nii.gz": MAPS,
            "pauli_2017/labels.txt": "0 A\n1 B\n2 C\n",
        },
        "ABC",
    ),
    "pauli_2017": (
        {"atlas_type": "deterministic"},
        {
            "pauli_2017/pauli_2017_det.nii.gz": LABELS,
            "pauli_2017/labels.txt": "0 A\n1 B\n2 C\n",
        },
        "ABC",
    ),
    "yeo_2011": ({"n_networks": 7}, YEO_FILES, "ABC"),
    "schaefer_2018": (
        {"n_rois": 100},
        {
            f"{SCHAEFER}.txt": LUT.replace(" ", "\t"),
            f"{SCHAEFER}_FSLMNI152_1mm.nii.gz": LABELS,
        },
        "ABC",
    ),
    "aal": ({}, AAL_FILES, ["two", "five", "nine"]),
    "basc_multiscale_2015": (
        {"resolution": 7},
        {
            "basc_multiscale_2015/template_cambridge_basc_multiscale_nii_sym/"
            "template_cambridge_basc_multiscale_sym_scale007.nii.gz": LABELS
        },
        "123",
    ),
    "destrieux_2009": (
        {},
        {
            "destrieux_2009/destrieux2009_rois_labels_lateralized.csv": TABLE,
            "destrieux_2009/destrieux2009_rois_lateralized.nii.gz": LABELS,
            "destrieux_2009/destrieux2009.rst": "",
        },
        ["L A", "L B", "R A"],
    ),
    "talairach": (
        {"level_name": "ba"},
        {
            "talairach_atlas/ba.nii.gz": LABELS,
            "talairach_atlas/ba-labels.json": json.dumps(["Background", *"CBA"]),
        },
        "CBA",
    ),
}


@pytest.mark.filterwarnings("ignore:\\nThe following regions are present")
@pytest.mark.parametrize("name", FETCHED)
def test_atlases_as_nilearn_fetches_them(name, bold, store):
    options, files, names = FETCHED[name]
    fetch = getattr(datasets, f"fetch_atlas_{name.partition(' ')[0]}")
    atlas = fetch(**options, **store(**files))

    _, regions = read_regions(bold, atlas)

    assert regions.names.tolist() == list(names)
    if len(names) == 3:  # the others merge two of the regions
        assert_array_equal(painted(regions) > 0, LABELS.ravel() > 0)
        order = np.searchsorted(regions.ids, painted(regions)[LABELS.ravel() > 0])
        assert_array_equal(order + 1, LABELS.ravel()[LABELS.ravel() > 0])


@pytest.mark.filterwarnings("ignore:\\nThe following regions are present")
def test_piles_of_parcellations_as_nilearn_fetches_them(bold, store):
    pile = [np.arange(np.prod(SHAPE)) // size + 1 for size in (60, 20, 7)]
    pile = np.stack([labels.reshape(SHAPE) for labels in pile], axis=3)
    files = {"craddock_2012/scorr05_mean_all.nii.gz": pile.astype(np.int16)}
    atlas = datasets.fetch_atlas_craddock_2012(**store(**files))
    with pytest.raises(ValueError, match="holds 3 images of labels"):
        read_regions(bold, atlas)


@pytest.mark.filterwarnings("ignore:\\nThe following regions are present")
def test_hemispheres_as_nilearn_fetches_them(tmp_path, rng):
    labels = np.array([0, 1, 1, 2, -1, 2])
    ctab = np.array([[0, 0, 0, 0, 7], [1, 0, 0, 0, 8], [2, 0, 0, 0, 9]])
    folder = tmp_path / "destrieux_surface"
    folder.mkdir()
    for part in ("left", "right"):
        path = folder / f"{part}.aparc.a2009s.annot"
        names = ["Unknown", "G_one", "S_two"]
        nibabel.freesurfer.write_annot(path, labels, ctab, names, fill_ctab=True)
    atlas = datasets.fetch_atlas_surf_destrieux(data_dir=tmp_path, verbose=0)
    imgs = build.surface(rng.standard_normal((8, 6)), rng.standard_normal((8, 6)))

    _, regions = read_regions(imgs, atlas)

    assert regions.names.tolist() == ["G_one", "S_two"]
    assert regions.labels.tolist() == [1, 1, 2, 2] * 2
    left = SurfaceImage(
        {"left": imgs.mesh.parts["left"]}, {"left": imgs.data.parts["left"]}
    )
    _, regions = read_regions(left, atlas)
    assert regions.labels.tolist() == [1, 1, 2, 2]
    other = build.surface(rng.standard_normal((8, 5)), rng.standard_normal((8, 6)))
    match = r"6 vertices in its map of the left .* have 5"
    with pytest.raises(ValueError, match=match):
        read_regions(other, atlas)
    with pytest.raises(TypeError, match="labels_img is a surface but imgs are volumes"):
        read_regions(build.volume(rng.random((4, 3, 3, 3))), atlas)


def test_bunches_without_an_image(bold):
    coordinates = Bunch(rois=pd.DataFrame({"x": [1]}), description="Power")
    match = "no atlas with an image called 'maps'; it holds 'rois', 'description'"
    with pytest.raises(ValueError, match=match):
        read_regions(bold, coordinates)
