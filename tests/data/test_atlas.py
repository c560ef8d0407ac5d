"""Atlases: which voxels, and what nilearn's fetchers return, with names."""

import warnings

import nibabel
import numpy as np
import pandas as pd
import pytest
from nibabel import Nifti1Image
from nilearn import datasets
from nilearn.surface import SurfaceImage
from numpy.testing import assert_array_equal
from sklearn.utils import Bunch

from mvpa_kfda.data.atlas import read_regions
from mvpa_kfda.data.space import RegionSpace, VolumeSpace
from tests import build

SHAPE = (5, 6, 4)
AFFINE = build.AFFINE


@pytest.fixture
def bold():
    return build.volume(100 + rng().standard_normal((8, *SHAPE)))


def rng():
    return np.random.default_rng(0)


def painted(regions):
    """Return the number of the region of every voxel of the grid, 0 for none."""
    whole = np.zeros(regions.base.mask.size, int)
    whole[regions.base.mask.ravel()] = regions.labels
    return whole


# ------------------------------------------------------------------ which voxels


def saved_again(data, path):
    """Return an image of whole numbers whose floats were written with its header."""
    nibabel.save(Nifti1Image(data, AFFINE), path)
    image = nibabel.load(path)
    nibabel.save(Nifti1Image(image.get_fdata(), image.affine, image.header), path)
    return nibabel.load(path)


@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.uint16, np.float32])
def test_labels_saved_again_from_floats(bold, tmp_path, dtype, single):
    """With a last axis of length one they are labels too, and no map."""
    most = 120 if dtype is np.uint8 else 12175  # as FreeSurfer has
    labels = rng().choice([0, 3, 7, most], SHAPE).astype(dtype)
    given = labels[..., np.newaxis] if single else labels
    again = saved_again(given, tmp_path / "atlas.nii")
    if dtype is not np.float32:
        assert np.ptp(again.get_fdata() - given) > 1e-4
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _, regions = read_regions(bold, again)
    assert_array_equal(painted(regions), labels.ravel())


def test_labels_copied_from_a_file_of_16_bits(bold, tmp_path):
    """Nothing tells the step of the file: they are rounded, with a warning."""
    labels = rng().choice([0, 3, 7], SHAPE).astype(np.uint16)
    values = saved_again(labels, tmp_path / "atlas.nii").get_fdata()
    with pytest.warns(UserWarning, match=r"are nearly whole, e.g. 2.99995, and they"):
        _, regions = read_regions(bold, Nifti1Image(values, AFFINE))
    assert_array_equal(painted(regions), labels.ravel())
    single = labels.astype(np.float32) * np.float32(1 + 1e-7)
    _, regions = read_regions(bold, Nifti1Image(single, AFFINE))
    assert_array_equal(painted(regions), labels.ravel())


@pytest.mark.parametrize("scale", [1, 240, 1e6])
@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.float32])
def test_maps_of_statistics_are_no_labels(bold, tmp_path, dtype, scale):
    """Even if they are saved in whole numbers with a step of nearly one."""
    nibabel.save(Nifti1Image(np.zeros(SHAPE, dtype), AFFINE), tmp_path / "zero.nii")
    header = nibabel.load(tmp_path / "zero.nii").header
    values = scale * rng().random(SHAPE)
    nibabel.save(Nifti1Image(values, AFFINE, header), tmp_path / "map.nii")
    with pytest.raises(ValueError, match=r"must hold whole numbers.* rounded first"):
        read_regions(bold, tmp_path / "map.nii")


# -------------------------------------------------------------------- regions in space


def test_regions_hold_what_has_their_label():
    base = VolumeSpace(np.ones((10, 2, 2)), np.eye(4))
    labels, ids = rng().integers(0, 4, 40) * 10, np.array([30, 10, 99, 20])
    space = RegionSpace(list("abcd"), ids, base, labels)
    assert_array_equal(space.membership.toarray(), labels == ids[:, np.newaxis])
    assert RegionSpace([], [], base, 0 * labels).membership.shape == (0, 40)


# ---------------------------------------------------------------------- what is refused


def test_maps_of_probabilities_are_refused(bold):
    values = rng().random((*SHAPE, 3))
    surface = build.surface(rng().random((3, 7)), rng().random((3, 5)))
    on_surface = build.surface(rng().random((8, 7)), rng().random((8, 5)))
    for imgs, atlas in (
        (bold, Nifti1Image(values, AFFINE)),
        (bold, Nifti1Image(np.rint(100 * values).astype(np.uint8), AFFINE)),
        (bold, Bunch(maps=Nifti1Image(values, AFFINE), labels=list("abc"))),
        (on_surface, surface),
    ):
        match = r"labels_img holds 3 maps; .*index_img.* thresholded first: .*maxprob"
        with pytest.raises(ValueError, match=match):
            read_regions(imgs, atlas)
    with pytest.raises(ValueError, match="probabilities must be thresholded first"):
        read_regions(bold, Nifti1Image(values[..., :1], AFFINE))
    coordinates = Bunch(rois=pd.DataFrame({"x": [1]}), description="Power")
    match = "no atlas with an image called 'maps'; it holds 'rois', 'description'"
    with pytest.raises(ValueError, match=match):
        read_regions(bold, coordinates)


# --------------------------------------------------------- names, and nilearn's atlases


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
XML = "<atlas><data>{}</data></atlas>"


def xml(pattern, rows):
    """Return an atlas of FSL whose labels look like this."""
    return XML.format("".join(pattern.format(i, name) for i, name in rows))


def fsl(name, xml_name, names):
    """Return the files of an atlas of FSL."""
    folder = f"fsl/data/atlases/{name.partition('-')[0]}"
    text = xml('<label index="{}">{}</label>', enumerate(names))
    return {
        f"{folder}/{name}.nii.gz": LABELS,
        f"fsl/data/atlases/{xml_name}.xml": text,
    }


BASC = (
    "basc_multiscale_2015/template_cambridge_basc_multiscale_nii_sym/"
    "template_cambridge_basc_multiscale_sym_scale007.nii.gz"
)

#: Fetcher, its arguments, files that it finds, and the names of regions 1, 2, 3.
FETCHED = {
    "harvard_oxford": (
        {"atlas_name": "cort-maxprob-thr0-2mm"},
        fsl("HarvardOxford-cort-maxprob-thr0-2mm", "HarvardOxford-Cortical", "CBA"),
        "CBA",
    ),
    "juelich": (
        {"atlas_name": "maxprob-thr0-2mm"},
        fsl("Juelich-maxprob-thr0-2mm", "Juelich", ["GM b L", "GM b R", "GM a"]),
        ["GM a", "GM b"],
    ),
    "aal": (
        {},
        {
            "aal_3v2/AAL3/AAL3v1.nii": np.choose(LABELS, [0, 2, 5, 9]).astype(np.int16),
            "aal_3v2/AAL3/AAL3v1.xml": xml(
                "<label><index>{}</index><name>{}</name></label>",
                [(9, "nine"), (2, "two"), (5, "five")],  # not in order
            ),
        },
        ["two", "five", "nine"],
    ),
    "basc_multiscale_2015": ({"resolution": 7}, {BASC: LABELS}, "123"),
    "destrieux_2009": (
        {},
        {
            "destrieux_2009/destrieux2009_rois_labels_lateralized.csv": (
                "index,name\n0,Background\n1,L A\n2,L B\n3,R A\n"
            ),
            "destrieux_2009/destrieux2009_rois_lateralized.nii.gz": LABELS,
            "destrieux_2009/destrieux2009.rst": "",
        },
        ["L A", "L B", "R A"],
    ),
}


@pytest.mark.filterwarnings("ignore:\\nThe following regions are present")
@pytest.mark.parametrize("name", FETCHED)
def test_atlases_as_nilearn_fetches_them(name, bold, store):
    options, files, names = FETCHED[name]
    fetch = getattr(datasets, f"fetch_atlas_{name}")
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
    with pytest.raises(ValueError, match=r"holds 3 maps.* pass one: nilearn"):
        read_regions(bold, atlas)


@pytest.mark.filterwarnings("ignore:\\nThe following regions are present")
def test_hemispheres_as_nilearn_fetches_them(tmp_path):
    labels = np.array([0, 1, 1, 2, -1, 2])
    ctab = np.array([[0, 0, 0, 0, 7], [1, 0, 0, 0, 8], [2, 0, 0, 0, 9]])
    folder = tmp_path / "destrieux_surface"
    folder.mkdir()
    for part in ("left", "right"):
        path = folder / f"{part}.aparc.a2009s.annot"
        names = ["Unknown", "G_one", "S_two"]
        nibabel.freesurfer.write_annot(path, labels, ctab, names, fill_ctab=True)
    atlas = datasets.fetch_atlas_surf_destrieux(data_dir=tmp_path, verbose=0)
    imgs = build.surface(rng().standard_normal((8, 6)), rng().standard_normal((8, 6)))

    _, regions = read_regions(imgs, atlas)

    assert regions.names.tolist() == ["G_one", "S_two"]
    assert regions.labels.tolist() == [1, 1, 2, 2] * 2
    left = SurfaceImage(
        {"left": imgs.mesh.parts["left"]}, {"left": imgs.data.parts["left"]}
    )
    _, regions = read_regions(left, atlas)
    assert regions.labels.tolist() == [1, 1, 2, 2]
    other = build.surface(rng().standard_normal((8, 5)), rng().standard_normal((8, 6)))
    match = r"6 vertices in its map of the left .* have 5"
    with pytest.raises(ValueError, match=match):
        read_regions(other, atlas)
    with pytest.raises(TypeError, match="labels_img is a surface but imgs are volumes"):
        read_regions(build.volume(rng().random((4, 3, 3, 3))), atlas)
