import dataclasses
import pickle

import nibabel
import numpy as np
import pytest
from nilearn.maskers import NiftiMasker, SurfaceMasker
from nilearn.surface import SurfaceImage
from numpy.testing import assert_allclose, assert_array_equal

from mvpa_kfda.data.space import SPACES as KINDS
from mvpa_kfda.data.space import (
    FeatureSpace,
    GrayordinateSpace,
    ParcelSpace,
    RegionSpace,
    Space,
    SurfaceSpace,
    VolumeSpace,
    unpack_space,
)
from mvpa_kfda.utils.files import read_result_file, write_result_file

AFFINE = np.array([[-3.0, 0, 0, 10], [0, 0, 4, -20], [0, 2, 0, 5], [0, 0, 0, 1]])


def volume(shape=(3, 4, 5)):
    mask = np.random.default_rng(0).random(shape) < 0.6
    return VolumeSpace(mask, AFFINE)


def surface():
    """Make two strips of triangles; the right one has a vertex more."""
    coordinates, faces, mask = {}, {}, {}
    for part, n in {"left": 5, "right": 6}.items():
        i = np.arange(n)
        coordinates[part] = np.stack([i * 1.5, i % 2, np.full(n, 7.0)], axis=1)
        faces[part] = np.stack([i[:-2], i[1:-1], i[2:]], axis=1)
        mask[part] = i != 1
    return SurfaceSpace(coordinates, faces, mask)


def regions(base=None):
    base = volume() if base is None else base
    labels = np.arange(base.n_positions) % 3 * 4  # 0, 4, 8; none has 2
    return RegionSpace(["eight", "two", "four"], [8, 2, 4], base, labels)


def grayordinates(mesh=True):
    """Make two vertices of three on the left, and two voxels of the thalamus."""
    corners = np.eye(3) * 4
    parts = {"left": corners}, {"left": [[0, 1, 2]]}
    return GrayordinateSpace(
        ["CIFTI_STRUCTURE_CORTEX_LEFT", "CIFTI_STRUCTURE_THALAMUS_LEFT"],
        [3, 0],
        [0, 0, 0, 1, 1],
        [2, 0, 1, -1, -1],
        [[-1] * 3] * 3 + [[1, 0, 0], [0, 0, 0]],
        [2, 1, 1],
        AFFINE,
        [True, True, False, True, True],
        *(parts if mesh else ({}, {})),
    )


def parcels():
    """Make a parcel of two vertices and one of a vertex and a voxel."""
    places = [0, 0, 1, 1], ["CIFTI_STRUCTURE_CORTEX_LEFT"], [3], [0, 0, 0, -1]
    voxels = [[-1] * 3] * 3 + [[1, 0, 0]]
    return ParcelSpace(["A", "B"], 2, *places, [0, 2, 1, -1], voxels, [2, 1, 1], AFFINE)


SPACES = {
    "volume": volume,
    "surface": surface,
    "regions": regions,
    "regions of a surface": lambda: regions(surface()),
    "grayordinates": grayordinates,
    "grayordinates without a mesh": lambda: grayordinates(False),
    "regions of grayordinates": lambda: regions(grayordinates()),
    "parcels": parcels,
    "features": lambda: FeatureSpace(None, 4),
    "named features": lambda: FeatureSpace(["a", "b"], 2),
}


@pytest.mark.parametrize("make", SPACES.values(), ids=SPACES)
def test_spaces_survive_packing_and_files(make, tmp_path):
    space = make()
    path = tmp_path / "space.h5"
    write_result_file(path, "Space", {"space": space.pack()})
    read = unpack_space(read_result_file(path)[1]["space"])
    assert read == space
    assert pickle.loads(pickle.dumps(space)) == space
    assert {len(column) for column in read.columns().values()} == {space.n_positions}
    assert space.describe() in repr(space)
    assert isinstance(space, Space)
    assert space.kind in KINDS
    assert (space.base is space) == (space.kind != "regions")
    edges = np.asarray(space.edges)
    assert edges.shape[0] == 2
    assert ((edges >= 0) & (edges < space.n_positions)).all()
    assert space.points is None or space.points.shape == (space.n_positions, 3)


def test_spaces_differ_in_kind_and_content():
    assert {make().kind for make in SPACES.values()} == set(KINDS)
    assert volume() != volume((4, 4, 5))
    assert volume() != regions()
    assert FeatureSpace(None, 2) != FeatureSpace(["a", "b"], 2)
    with pytest.raises(dataclasses.FrozenInstanceError, match="affine"):
        volume().affine = np.eye(4)
    keep = {"left": np.eye(5)[0], "right": np.zeros(6)}
    for space, words in (
        (VolumeSpace(np.ones((1, 1, 2)), AFFINE), "2 voxels"),
        (VolumeSpace(np.ones((1, 1, 1)), AFFINE), "1 voxel"),
        (surface(), "9 vertices"),
        (dataclasses.replace(surface(), mask=keep), "1 vertex"),
    ):
        assert space.describe() == words


def test_voxels_have_places_a_size_and_images():
    space = volume()
    expected = nibabel.affines.apply_affine(AFFINE, np.argwhere(space.mask))
    assert_allclose(space.points, expected, rtol=1e-12, atol=1e-12)
    columns = space.columns()
    assert list(columns) == ["x", "y", "z"]
    assert_allclose(columns["y"], expected[:, 1], rtol=1e-12, atol=1e-12)
    assert_allclose(space.voxel_size, 24.0, rtol=1e-12)
    numbers = np.arange(space.n_positions)
    img = space.to_img(numbers, outside=-1)
    assert_array_equal(img.affine, AFFINE)
    assert img.get_data_dtype() == np.float32
    assert (img.get_fdata()[~space.mask] == -1).all()
    assert img.header.get_xyzt_units()[0] == "mm"
    whole = space.to_img(numbers, dtype=np.int32)
    assert whole.get_data_dtype() == np.int32
    assert_array_equal(np.asarray(whole.dataobj)[space.mask], numbers)


# ----------------------------------------------------------------------- CIFTI files


def test_grayordinates_are_in_the_order_of_the_file():
    space = grayordinates()
    columns = space.columns()
    assert columns["structure"].tolist() == ["CORTEX_LEFT"] * 2 + ["THALAMUS_LEFT"] * 2
    assert columns["vertex"].tolist() == [2, 0, -1, -1]
    places = [[0, 0, 4], [4, 0, 0], [7, -20, 5], [10, -20, 5]]
    assert_allclose(space.points, places, rtol=0, atol=1e-12)
    # An edge joins the two vertices, a face the two voxels.
    assert {frozenset(pair) for pair in space.edges.T.tolist()} == {
        frozenset([0, 1]),
        frozenset([2, 3]),
    }
    img = space.to_img([1, 2, 3, 4], outside=-1.0, name="t")
    assert np.asarray(img.dataobj).tolist() == [[1, 2, -1, 3, 4]]
    assert img.header.get_axis(0).name.tolist() == ["t"]
    assert img.header.get_axis(1).vertex.tolist() == [2, 0, 1, -1, -1]
    surface, volume = space.pieces()
    assert surface[0].mask["left"].tolist() == [True, False, True]
    assert surface[1].tolist() == [1, 0]
    assert volume[1].tolist() == [3, 2]
    assert space.volume[1].tolist() == [3, 2]


def test_without_a_mesh_the_cortex_has_no_places():
    space = grayordinates(mesh=False)
    assert np.isnan(space.points[:2]).all()
    assert np.isfinite(space.points[2:]).all()
    assert space.edges.shape == (2, 1)
    assert space.unplaced == ["CORTEX_LEFT"]
    alone = dataclasses.replace(space, mask=[True, True, False, False, False])
    assert alone.points is None
    assert [*alone.columns()] == ["structure", "vertex"]


def test_parcels_keep_where_they_are():
    axis = parcels().axis()
    assert axis.name.tolist() == ["A", "B"]
    left = "CIFTI_STRUCTURE_CORTEX_LEFT"
    assert axis.vertices[0][left].tolist() == [0, 2]
    assert axis.vertices[1][left].tolist() == [1]
    assert axis.voxels[1].tolist() == [[1, 0, 0]]
    assert axis.nvertices == {left: 3}


# --------------------------------------------------------------------------- volumes


def test_voxels_are_in_the_order_of_nilearn():
    space = volume()
    mask_img = nibabel.Nifti1Image(space.mask.astype(np.uint8), AFFINE)
    data = np.random.default_rng(1).normal(size=space.mask.shape)
    masker = NiftiMasker(mask_img, standardize=None).fit()
    values = masker.transform(nibabel.Nifti1Image(data, AFFINE)).ravel()
    img = space.to_img(values, dtype=np.float64)
    assert_allclose(img.get_fdata()[space.mask], data[space.mask], rtol=1e-6, atol=0)
    assert_array_equal(
        masker.inverse_transform(values).get_fdata()[space.mask],
        img.get_fdata()[space.mask],
    )


# -------------------------------------------------------------------------- surfaces


def test_vertices_are_in_the_order_of_nilearn():
    space = surface()
    values = np.arange(1.0, space.n_positions + 1)
    img = space.to_img(values)
    assert isinstance(img, SurfaceImage)
    assert_array_equal(img.data.parts["left"], [1, 0, 2, 3, 4])
    assert_array_equal(img.data.parts["right"], [5, 0, 6, 7, 8, 9])
    assert img.data.parts["right"].dtype == np.float32
    mask_img = space.to_img(np.ones(9), dtype=np.uint8)
    masker = SurfaceMasker(mask_img, standardize=None).fit()
    assert_array_equal(masker.transform(img).ravel(), values)
    for part, mesh in img.mesh.parts.items():
        assert_array_equal(mesh.coordinates, space.coordinates[part])
        assert_array_equal(mesh.faces, space.faces[part])
    columns = space.columns()
    assert list(columns) == ["hemisphere", "vertex", "x", "y", "z"]
    assert columns["hemisphere"].tolist() == ["left"] * 4 + ["right"] * 5
    assert columns["vertex"].tolist() == [0, 2, 3, 4, 0, 2, 3, 4, 5]
    assert_array_equal(columns["x"], columns["vertex"] * 1.5)
    fields = ("coordinates", "faces", "mask")  # one hemisphere is enough
    right = SurfaceSpace(*({"right": getattr(space, f)["right"]} for f in fields))
    assert right.to_img(np.arange(5)).data.parts["right"].tolist() == [0, 0, 1, 2, 3, 4]


def test_regions_are_painted_and_have_their_centre_of_mass():
    space = regions()
    img = space.to_img([0.8, 0.2, np.nan], outside=-1.0)
    painted = img.get_fdata()[space.base.mask]
    assert_allclose(painted[space.labels == 8], 0.8, rtol=1e-7, atol=0)
    assert np.isnan(painted[space.labels == 4]).all()
    assert (painted[space.labels == 0] == -1).all()
    assert (img.get_fdata()[~space.base.mask] == -1).all()
    columns = space.columns()
    assert list(columns) == ["region", "x", "y", "z"]
    assert columns["region"].tolist() == ["eight", "two", "four"]
    for number, label in ((0, 8), (2, 4)):
        centre = space.base.points[space.labels == label].mean(axis=0)
        assert_allclose(space.points[number], centre, rtol=1e-12, atol=1e-12)
    assert np.isnan(space.points[1]).all()  # no voxel of the data
    space = regions(surface())
    assert list(space.columns()) == ["region"]
    assert space.to_img([3, 2, 1]).data.parts["left"].tolist() == [0, 0, 1, 3, 0]


# -------------------------------------------------------------------------- features


def test_features_have_names_or_numbers_but_no_image():
    assert FeatureSpace(None, 3).columns()["feature"].tolist() == [0, 1, 2]
    assert FeatureSpace(["a", "b"], 2).columns()["feature"].tolist() == ["a", "b"]
    assert FeatureSpace(None, 3).points is None
    with pytest.raises(ValueError, match=r"no image .* Use result\.to_dataframe\(\)"):
        FeatureSpace(None, 3).to_img(np.ones(3))
    with pytest.raises(ValueError, match=r"each of the 2 features, shape \(2,\); got"):
        FeatureSpace(["a", "b"], 2).to_img([1.0])
    with pytest.raises(ValueError, match="2 features need one name each"):
        FeatureSpace(["a"], 2)
    with pytest.raises(ValueError, match=r"'kind': 'sphere'\. Allowed: 'volume', 'sur"):
        unpack_space({"kind": "sphere"})
    with pytest.raises(ValueError, match="overlap are no longer supported"):
        unpack_space(regions().pack() | {"members": np.array([[0, 1], [1, 1]])})
    assert unpack_space(regions().pack() | {"members": None}) == regions()


#: What belongs together, parts that do not, and the message.
WRONG = [
    (volume, {"mask": np.ones((2, 2))}, r"shape \(x, y, z\); got \(2, 2\)"),
    (volume, {"affine": np.eye(3)}, r"finite array of shape \(4, 4\)"),
    (volume, {"affine": np.full((4, 4), np.nan)}, r"finite array of shape"),
    (surface, {"mask": {"left": np.ones(5)}}, r"the same parts.* \['left', 'right'\]"),
    (surface, {"coordinates": {}}, r"of the same parts\..*got \[\]"),
    (surface, {"coordinates": {"top": np.ones((5, 3))}}, "Allowed: 'left', 'right'"),
    (
        surface,
        {"mask": {"left": np.ones(4), "right": np.ones(6)}},
        "The left surface needs",
    ),
    (
        surface,
        {"faces": {"left": [[0, 1, 5]], "right": [[0, 1, 2]]}},
        "vertices from 0 to",
    ),
    (regions, {"names": ["a", "b"]}, "need one name per id"),
    (regions, {"labels": [0, 8]}, "labels for each of the"),
    (regions, {"ids": [8, 8, 4]}, "each used once"),
    (regions, {"ids": [8, 0, 4]}, "other than 0"),
    (regions, {"ids": [8, 2, 5]}, "every label must be one of them"),
    (grayordinates, {"mask": [True]}, "A mask of 5 grayordinates needs one value each"),
    (grayordinates, {"vertex": [2, 0, 3, -1, -1]}, "must lie on its surfaces"),
    (grayordinates, {"vertex": [2, 2, 1, -1, -1]}, "every vertex and voxel once"),
    (
        grayordinates,
        {"voxel": [[-1] * 3] * 3 + [[0, 0, 0]] * 2},
        "every vertex and voxel once",
    ),
    (grayordinates, {"shape": [1, 1, 1]}, "must lie in its grid"),
    (grayordinates, {"affine": None}, "must lie in its grid"),
    (grayordinates, {"structure": [0, 0, 0, 1]}, "need a structure, a vertex and a vo"),
    (grayordinates, {"structure": [0, 0, 0, 1, 2]}, "need a structure, a vertex and a"),
    (grayordinates, {"coordinates": {"left": np.eye(3)[:2]}}, "mesh has 2 vertices.*3"),
    (parcels, {"parcel": [0, 0, 1, 2]}, "in one of the parcels"),
]


@pytest.mark.parametrize(("make", "changes", "message"), WRONG)
def test_parts_must_belong_together(make, changes, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(make(), **changes)
