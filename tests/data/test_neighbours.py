"""Neighbourhoods equal nilearn's, brute force on small grids, and paths on meshes."""

from functools import partial

import numpy as np
import pytest
from nibabel import Nifti1Image
from nilearn.datasets import load_fsaverage
from nilearn.image import coord_transform
from nilearn.maskers import nifti_spheres_masker
from numpy.testing import assert_array_equal
from scipy import sparse
from scipy.sparse import csgraph

from mvpa_kfda.data import neighbours
from mvpa_kfda.data.neighbours import (
    adjacency_members,
    centre_features,
    keep_usable,
    nearest_members,
    sphere_members,
    surface_members,
    touching,
    touching_from,
)
from mvpa_kfda.data.space import FeatureSpace, RegionSpace, SurfaceSpace, VolumeSpace
from tests import build

# Public since nilearn 0.12.
find_spheres = getattr(
    nifti_spheres_masker,
    "apply_mask_and_get_affinity",
    getattr(nifti_spheres_masker, "_apply_mask_and_get_affinity", None),
)


def affine(sizes, angles=(0.0, 0.0), origin=(-14.1, 7.3, -9.7)):
    """Return an affine of voxel sizes in mm, turned about two axes."""
    (c, d), (s, t) = np.cos(angles), np.sin(angles)
    about_z = np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]])
    about_x = np.array([[1, 0, 0], [0, d, -t], [0, t, d]])
    made = np.eye(4)
    made[:3, :3] = about_z @ about_x @ np.diag(sizes)
    made[:3, 3] = origin
    return made


def holed(shape=(8, 7, 6), seed=0):
    """Return a mask with holes."""
    return np.random.default_rng(seed).random(shape) < 0.7


def mm(space):
    """Return the places of voxels in mm as nilearn's SearchLight makes them."""
    return np.asarray(coord_transform(*np.nonzero(space.mask), space.affine)).T


def nilearn_spheres(mask_space, centres, radius):
    """Return the members that nilearn's SearchLight has, given images."""
    series = np.ones((*mask_space.mask.shape, 2), dtype="float32")
    mask_img = Nifti1Image(mask_space.mask.astype("uint8"), mask_space.affine)
    _, spheres = find_spheres(
        centres,
        Nifti1Image(series, mask_space.affine),
        radius,
        allow_overlap=True,
        mask_img=mask_img,
    )
    return sparse.csr_array(spheres).astype(bool)


def assert_same_members(members, expected):
    assert members.dtype == bool
    assert members.has_sorted_indices
    assert members.data.all()
    assert members.shape == expected.shape
    assert_array_equal(members.toarray(), expected.toarray())


AFFINES = {
    "isotropic": affine([3.3, 3.3, 3.3]),
    "anisotropic": affine([2.0, 3.0, 4.5]),
    "mirrored": affine([-3.0, 3.0, 3.0], origin=(9.0, -6.0, 0.0)),
    "oblique": affine([3.3, 3.3, 3.3], angles=(0.3, -0.2)),
    "oblique and anisotropic": affine([1.7, 2.9, 3.1], angles=(1.1, 0.4)),
    "below 1 mm": affine([0.7, 0.7, 0.8], angles=(0.2, 0.1), origin=(-2.0, -2.0, -2.0)),
    "about the origin": affine([1.5, 1.5, 1.5], origin=(-3.75, -3.75, -3.75)),
}


@pytest.mark.parametrize(
    ("name", "voxels"),
    [*build.by_turns(AFFINES, [1.0, 2.0, 3.0, 40.0]), ("below 1 mm", 0.2)],
)
def test_spheres_are_nilearns(name, voxels, monkeypatch):
    matrix = AFFINES[name]
    # Whole numbers of voxels: many distances then equal the radius up to rounding.
    space = VolumeSpace(holed(), matrix)
    radius = voxels * np.linalg.norm(matrix[:3, 0])
    members = sphere_members(space, space, radius)
    assert_same_members(members, nilearn_spheres(space, mm(space), radius))
    assert members.diagonal().all()
    if voxels == 0.2:
        # What nilearn adds: the first voxel that shares the whole millimetres.
        assert np.diff(members.indptr).max() == 2
    monkeypatch.setattr(neighbours, "_BLOCK", 90)
    assert_same_members(sphere_members(space, space, radius), members)


@pytest.mark.parametrize(
    ("name", "grid"), build.by_turns(AFFINES, ["wider", "halfway", "finer"])
)
def test_spheres_with_centres_outside_of_the_mask(name, grid):
    matrix = AFFINES[name]
    space, other = VolumeSpace(holed(), matrix), matrix.copy()
    shift = {"wider": -2.0, "halfway": 0.5, "finer": 0.25}[grid]
    other[:3, 3] += matrix[:3, :3] @ ([shift] * 3)
    shape = (12, 11, 10) if grid == "wider" else (8, 7, 6)
    other[:3, :3] /= 2 if grid == "finer" else 1
    centres = VolumeSpace(holed(shape, seed=1), other)
    radius = 0.6 * np.linalg.norm(matrix[:3, 0])
    members = sphere_members(space, centres, radius)
    some = np.diff(members.indptr) > 0
    assert 0 < some.sum()
    expected = nilearn_spheres(space, mm(centres)[some], radius)
    assert_same_members(members[some], expected)
    if not some.all():
        with pytest.raises(ValueError, match="These spheres are empty"):
            nilearn_spheres(space, mm(centres)[~some][:1], radius)
    else:
        assert grid != "wider"


def test_centres_out_of_reach_and_empty_masks_have_empty_spheres():
    space = VolumeSpace(np.ones((2, 2, 2)), np.eye(4))
    nothing = VolumeSpace(np.zeros((2, 2, 2)), np.eye(4))
    away = VolumeSpace(np.ones((2, 2, 2)), affine([1.0] * 3, origin=(50.0, 0.0, 0.0)))
    assert sphere_members(space, away, 3.0).nnz == 0
    assert sphere_members(space, away, 3.0).shape == (8, 8)
    assert sphere_members(nothing, space, 3.0).shape == (8, 0)
    assert sphere_members(space, nothing, 3.0).shape == (0, 8)
    assert_array_equal(centre_features(space, away), [-1] * 8)


def test_neighbourhoods_that_outgrow_the_memory_are_refused(monkeypatch):
    space = VolumeSpace(np.ones((9, 9, 9)), np.eye(4))
    needed = 4 * 729**2 * 10  # they may fill a quarter of it
    monkeypatch.setattr(neighbours, "usable_memory", lambda: needed - 1)
    with pytest.raises(ValueError, match=r"radius 50 mm hold about 729 .* 5\.31 MB"):
        sphere_members(space, space, 50.0)
    monkeypatch.setattr(neighbours, "usable_memory", lambda: needed)
    assert sphere_members(space, space, 50.0).nnz == 729**2
    mesh = strip(7)
    monkeypatch.setattr(neighbours, "usable_memory", lambda: 4 * 7 * 7 * 10 - 1)
    with pytest.raises(ValueError, match="of 9 edges hold about 7 features"):
        surface_members(mesh, mesh, 9, "edges")


def strip(n, step=1.0, **masks):
    """Return a strip of triangles: vertices in a zigzag, each next to four others.

    Vertex i lies at x = i * step; even ones at y = 0, odd ones at y = step.
    """
    i = np.arange(n)
    places = np.column_stack([i, i % 2, np.zeros(n)]) * step
    faces = np.column_stack([i[:-2], i[1:-1], i[2:]])
    masks = masks or {"left": np.ones(n, bool)}
    return SurfaceSpace(
        dict.fromkeys(masks, places), dict.fromkeys(masks, faces), masks
    )


@pytest.mark.parametrize(
    ("radius", "distance", "error", "match"),
    [
        (0, None, ValueError, r"'radius'.*The radius is in mm"),
        (-4.0, None, ValueError, r"'radius'.*The radius is in mm"),
        (np.inf, None, ValueError, r"'radius'.*The radius is in mm"),
        ("8", None, TypeError, r"'radius'.*The radius is in mm"),
        (2.5, "edges", ValueError, "'radius': 2.5. Allowed: .*'edges', a whole number"),
        (-1, "edges", ValueError, "The radius is in edges"),
        (np.nan, "geodesic", ValueError, "The radius is in mm"),
        (8, "euclidean", ValueError, "'euclidean'. Allowed: 'geodesic', 'edges'"),
    ],
)
def test_radius_and_distance_are_checked(radius, distance, error, match):
    space, members = VolumeSpace(np.ones((2, 2, 2)), np.eye(4)), sphere_members
    if distance is not None:
        space, members = strip(5), partial(surface_members, distance=distance)
    with pytest.raises(error, match=match):
        members(space, space, radius)


def test_a_vertex_at_the_radius_belongs_whatever_its_rounding():
    mesh = strip(9, step=np.float32(0.1))
    members = surface_members(mesh, mesh, 0.6).toarray()  # 3 edges of 0.2 mm
    assert members[0, 6]
    assert not members[0, 7]


def test_paths_run_through_vertices_outside_of_the_mask():
    mask = np.array([1, 1, 0, 0, 1, 1, 1], bool)
    data, centres = strip(7, left=mask), strip(7, left=~mask)
    whole = surface_members(strip(7), strip(7), 4.0).toarray()
    assert_array_equal(
        surface_members(data, data, 4.0).toarray(), whole[np.ix_(mask, mask)]
    )
    assert whole[0, 4]
    assert_array_equal(
        surface_members(data, centres, 4.0).toarray(), whole[np.ix_(~mask, mask)]
    )


def test_vertices_in_one_place_are_joined_by_an_edge_without_length():
    corners = {"left": np.array([[0.0, 0, 0], [0, 0, 0], [1, 0, 0]])}
    mesh = SurfaceSpace(corners, {"left": [[0, 1, 2]]}, {"left": np.ones(3)})
    members = surface_members(mesh, mesh, 0.5).toarray()
    assert_array_equal(members, [[1, 1, 0], [1, 1, 0], [0, 0, 1]])
    assert_array_equal(touching(mesh), [[0, 0, 1], [1, 2, 2]])


@pytest.mark.some(2)
@pytest.mark.parametrize(
    ("distance", "radius"), [("geodesic", 9.0), ("geodesic", 25.0), ("edges", 3)]
)
def test_neighbourhoods_on_a_brain_equal_paths_over_the_whole_mesh(distance, radius):
    meshes, rng = load_fsaverage("fsaverage5")["pial"].parts, np.random.default_rng(0)
    inside = {part: rng.random(m.n_vertices) < 0.8 for part, m in meshes.items()}
    centres = {part: np.zeros_like(mask) for part, mask in inside.items()}
    for part, mask in inside.items():
        centres[part][rng.choice(np.flatnonzero(mask), 100)] = True
    coordinates = {part: mesh.coordinates for part, mesh in meshes.items()}
    faces = {part: mesh.faces for part, mesh in meshes.items()}
    space, few = (SurfaceSpace(coordinates, faces, mask) for mask in (inside, centres))
    members = surface_members(space, few, radius, distance)
    some = rng.choice(np.flatnonzero(centres["right"]), 20)
    places, faces = coordinates["right"], faces["right"]
    i, j = faces[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2).T.astype(np.int32)
    lengths = np.sqrt(((places[i] - places[j]) ** 2).sum(axis=1))
    weights = lengths if distance == "geodesic" else np.ones(len(i))
    graph = sparse.csr_array((weights, (i, j)), shape=[len(places)] * 2)
    assert graph.nnz == len(i)  # each edge once in each direction: nothing is summed
    paths = csgraph.shortest_path(graph, directed=False, indices=some)
    n_left = np.count_nonzero(inside["left"])
    rows = np.searchsorted(np.flatnonzero(centres["right"]), some)
    rows += np.count_nonzero(centres["left"])
    found = members[rows].toarray()
    expected = paths[:, inside["right"]] <= radius * (1 + 1e-6)
    assert_array_equal(found, np.hstack([np.zeros((20, n_left), bool), expected]))


def test_centres_on_another_mesh_are_refused():
    other = [
        strip(5, step=2.0),
        strip(6),
        strip(5, right=np.ones(5)),
        VolumeSpace(holed(), np.eye(4)),
    ]
    for centres in other:
        with pytest.raises(ValueError, match="not on the meshes of the data, 5 vert"):
            surface_members(strip(5), centres, 3.0)
        with pytest.raises(ValueError, match="not on the meshes of the data, 5 vert"):
            centre_features(strip(5), centres)


def random_graph(n=12, seed=0):
    """Return an asymmetric matrix of weights without a diagonal."""
    rng = np.random.default_rng(seed)
    weights = rng.random((n, n)) * (rng.random((n, n)) < 0.2)
    np.fill_diagonal(weights, 0.0)
    return weights


def test_adjacency_rows_with_the_feature_itself():
    weights = random_graph()
    expected = (weights > 0) | np.eye(12, dtype=bool)
    assert (expected != expected.T).any()
    forms = np.asarray, sparse.coo_matrix, sparse.csc_array, np.ndarray.tolist
    for form in forms:
        # Whatever the diagonal; and zeros that are stored are none's neighbours.
        for given in (weights, weights + 3 * np.eye(12)):
            members = adjacency_members(form(given), 12)
            assert_same_members(members, sparse.csr_array(expected))
    stored = sparse.csr_array(weights)
    stored.data[:] = 0.0
    assert_same_members(adjacency_members(stored, 12), sparse.eye_array(12))
    names = [f"sensor {i}" for i in range(12)]
    members = adjacency_members((weights, names), 12)
    assert_same_members(members, sparse.csr_array(expected))
    with pytest.raises(ValueError, match="names 11 features; the data have 12"):
        adjacency_members((weights, names[1:]), 12)


def test_voxels_touch_at_their_faces_and_vertices_along_edges():
    mask = holed((5, 4, 6))
    mask[2] = False
    mask[2, 1, 1] = True  # likely alone
    pairs = touching(VolumeSpace(mask, AFFINES["oblique"]))
    voxels = np.argwhere(mask)
    steps = np.abs(voxels[:, np.newaxis] - voxels).sum(axis=2)
    assert_array_equal(pairs, np.triu(steps == 1).nonzero())
    alone = np.zeros((3, 3, 3), bool)
    alone[0, 0, 0] = alone[2, 2, 2] = True
    assert touching(VolumeSpace(alone, np.eye(4))).shape == (2, 0)
    assert touching(VolumeSpace(~alone & alone, np.eye(4))).shape == (2, 0)
    left, right = np.array([1, 1, 0, 1, 1], bool), np.array([0, 0, 1, 1, 1], bool)
    pairs = touching(strip(5, left=left, right=right))
    # Vertices 0 1 3 4 of the left (0-1, 1-3, 3-4) and 2 3 4 of the right.
    assert_array_equal(pairs, [[0, 1, 2, 4, 4, 5], [1, 2, 3, 5, 6, 6]])


@pytest.mark.parametrize(
    ("adjacency", "match"),
    [
        (np.eye(4), r"per feature, shape \(3, 3\); got \(4, 4\)"),
        (np.ones((3, 2)), r"got \(3, 2\)"),
        (-np.eye(3), "negative, NaN or infinite"),
        (sparse.csr_array(np.diag([1, np.nan, 1])), "negative, NaN"),
        (np.full((3, 3), np.inf), "infinite.*distances < 10"),
        ("edges", "'adjacency': of type str"),
        (None, "'adjacency': of type NoneType"),
        (np.eye(3) * 1j, "matrix of real numbers"),
        ([[0, 1], [1]], "'adjacency': of type list"),
    ],
)
def test_adjacency_is_checked(adjacency, match):
    with pytest.raises((TypeError, ValueError), match=match):
        adjacency_members(adjacency, 3)


def test_regions_touch_where_their_voxels_do():
    labels = np.array([[7, 7, 3, 0, 9], [7, 5, 3, 0, 9]]).reshape(2, 5, 1)
    base = VolumeSpace(np.ones((2, 5, 1)), np.eye(4))
    space = RegionSpace(list("abcde"), [9, 7, 5, 3, 4], base, labels.ravel())
    # 7-5, 7-3, 5-3; 9 is behind nothing, 4 is nowhere.
    assert_array_equal(touching(space), [[1, 1, 2], [2, 3, 3]])
    mesh = strip(6)
    space = RegionSpace(["a", "b", "c"], [1, 2, 3], mesh, [1, 1, 2, 2, 2, 3])
    assert_array_equal(touching(space), [[0, 1], [1, 2]])


def test_features_touch_as_their_adjacency_says():
    assert touching(FeatureSpace(None, 5)).shape == (2, 0)
    weights = random_graph()
    expected = np.stack(np.nonzero(np.triu((weights + weights.T) > 0, k=1)))
    assert_array_equal(touching_from(weights), expected)
    assert_array_equal(touching_from(adjacency_members(weights, 12)), expected)
    assert_array_equal(touching_from(weights.T), expected)


def test_unusable_features_leave_all_rows_and_their_own_is_empty():
    members = np.random.default_rng(0).random((9, 7)) < 0.5
    for centres in ([0, 1, 2, 3, 4, 5, 6, -1, -1], [-1] * 9):
        for unusable in ([2, 4], [6]):  # -1 does not mean the last one
            usable = ~np.isin(np.arange(7), unusable)
            expected = (members & usable) * ~np.isin(centres, unusable)[:, None]
            given = sparse.csr_array(members), usable, np.array(centres)
            kept = keep_usable(*given)
            assert_same_members(kept, sparse.csr_array(expected))
            assert kept.indptr.dtype == np.int32


def test_own_columns_of_voxels_and_vertices():
    mask, wanted = holed(), holed(seed=1)
    data = VolumeSpace(mask, AFFINES["oblique"])
    centres = VolumeSpace(wanted, AFFINES["oblique"])
    index = centre_features(data, centres)
    assert_array_equal(index >= 0, mask[wanted])
    assert_array_equal(data.voxels[index[index >= 0]], np.argwhere(mask & wanted))
    assert_array_equal(centre_features(data, data), np.arange(mask.sum()))
    left, right = np.array([1, 0, 1, 1], bool), np.array([0, 1, 1, 0], bool)
    mesh, chosen = strip(4, left=left, right=right), strip(4, left=right, right=left)
    assert_array_equal(centre_features(mesh, chosen), [-1, 1, -1, 4, -1])
    assert_array_equal(centre_features(*[FeatureSpace(None, 3)] * 2), [0, 1, 2])
    # Nothing wraps around the grid.
    space = VolumeSpace(np.ones((2, 3, 2)), np.eye(4))
    shifted = VolumeSpace(np.ones((2, 1, 1)), affine([1.0] * 3, origin=(-1.0, 0, 0)))
    assert_array_equal(centre_features(space, shifted), [-1, 0])
    with pytest.raises(TypeError, match=r"are 5 vertices, but the data have .* voxels"):
        centre_features(data, strip(5))
    with pytest.raises(TypeError, match="are 3 features, but the data have 2 features"):
        centre_features(FeatureSpace(None, 2), FeatureSpace(None, 3))


def test_nearest_points_are_those_as_near_as_most_of_them_are():
    # A grid of 2 mm along two axes, turned, and a point that is far from all others.
    i, j = np.divmod(np.arange(12), 4)
    turn = np.array([[0.6, 0.8, 0.0], [-0.8, 0.6, 0.0]])
    points = np.vstack([2.0 * np.stack([i, j], axis=1) @ turn, [99.0, 0.0, 0.0]])
    expected = np.zeros((13, 13), bool)
    steps = abs(i[:, None] - i) + abs(j[:, None] - j)
    expected[:12, :12], expected[12, 12] = steps <= 1, True
    assert_array_equal(nearest_members(points).toarray(), expected)
