"""Which positions touch, and which features are decoded together at a position.

Pairs of touching positions are what clusters of a map grow along. Members are a sparse
boolean array, one row per position (sphere, vertex, feature or region), one column per
feature of the data.

Spheres [1]_ are those of :class:`nilearn.decoding.SearchLight`: the voxels of the mask
whose centres are at most the radius away, and always the voxel that the centre of the
sphere lies in. nilearn also adds the first voxel whose coordinates have the same whole
millimetres as the centre's, which can be another one where voxels are small: below 2
mm, or somewhat more on oblique grids. Centres may lie on another grid, and outside of
the mask.

On surfaces [2]_ paths run along the edges of the mesh and through all of its vertices,
also through those outside of the mask; only vertices of the mask are members. A path
along edges is somewhat longer than the shortest one across the triangles. Hemispheres
never mix, nor do the structures of a CIFTI file.

An adjacency matrix need not be symmetric: feature i may see j without being seen by it,
as with a fixed number of nearest neighbours. Two features touch if one sees the other.

References
----------
.. [1] Kriegeskorte, N., Goebel, R., & Bandettini, P. (2006). Information-based
   functional brain mapping. Proceedings of the National Academy of Sciences, 103,
   3863-3868.
.. [2] Chen, Y., et al. (2011). Cortical surface-based searchlight decoding. NeuroImage,
   56, 582-592.
"""

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph
from sklearn.neighbors import NearestNeighbors

from ..utils.checks import check_option, check_positive, check_shape, word_bytes
from ..utils.files import same_content
from ..utils.memory import usable_memory
from .space import GrayordinateSpace, SurfaceSpace, VolumeSpace, numbered, short

#: How the length of a path along a mesh is measured.
DISTANCES = ("geodesic", "edges")
_BLOCK = 2**24  # pairs of a centre and a feature that are looked at in one go
_BYTES = 10  # of a member: its column and its value, twice while rows are joined
_SAMPLE = 100  # centres that tell how large all neighbourhoods will be
_ROUNDING = 1e-6  # of distances between coordinates, which files hold as float32


def touching(space):
    """The pairs of positions that touch, (2, n_pairs), each once."""
    n, edges = space.n_positions, space.edges
    ones = np.ones(edges.shape[1], dtype=bool)
    return touching_from(sparse.csr_array((ones, tuple(edges)), shape=(n, n)))


def touching_from(adjacency):
    """Pairs (2, n_pairs), one of which sees the other in an adjacency."""
    graph = sparse.csr_array(adjacency).astype(bool)
    pairs = sparse.csr_array(sparse.triu(graph + graph.T, k=1))
    pairs.sort_indices()
    return np.stack(pairs.nonzero()).astype(np.intp)


def centre_features(mask_space, centre_space):
    """The feature that every centre lies in, (n_centres,), -1 for none."""
    if mask_space == centre_space:
        return np.arange(mask_space.n_positions)
    if isinstance(mask_space, SurfaceSpace | GrayordinateSpace):
        check_same_mesh(mask_space, centre_space)
        return numbered(mask_space.joined_mask)[centre_space.joined_mask]
    if not isinstance(mask_space, VolumeSpace) or type(centre_space) is not VolumeSpace:
        raise TypeError(
            f"The centres are {centre_space.describe()}, but the data have "
            f"{mask_space.describe()}; both must be of the same kind of image."
        )
    inverse = np.linalg.inv(mask_space.affine)
    centres = in_mm(centre_space)
    places = np.column_stack([centres, np.ones(len(centres))])[:, :, np.newaxis]
    # A product per centre, as in nilearn: halfway between voxels all of them at once
    # round to other voxels than one at a time.
    voxels = np.round((inverse @ places)[:, :3, 0]).astype(np.intp)
    inside = ((voxels >= 0) & (voxels < mask_space.mask.shape)).all(axis=1)
    index = np.full(len(voxels), -1)
    index[inside] = numbered(mask_space.mask)[tuple(voxels[inside].T)]
    return index


def check_same_mesh(mask_space, centre_space):
    """Raise an error unless both are the same surface, or the same columns of CIFTI."""
    one, two = ({**s.pack(), "mask": None} for s in (mask_space, centre_space))
    if not same_content(one, two):
        raise ValueError(
            f"The centres are {centre_space.describe()}, which are not on the meshes "
            f"of the data, {mask_space.describe()}. Use the same meshes for both."
        )


def in_mm(space):
    """The centres of voxels in mm, rounded just as nilearn rounds them."""
    from nilearn.image import coord_transform  # slow to import

    return np.stack(coord_transform(*np.nonzero(space.mask), space.affine), axis=1)


def members_within(mask_space, centre_space, radius, distance="geodesic"):
    """The features within a radius of every centre, in a space of any kind.

    Of grayordinates, those in the same structure.
    """
    if isinstance(mask_space, VolumeSpace):
        return sphere_members(mask_space, centre_space, radius)
    if isinstance(mask_space, SurfaceSpace):
        return surface_members(mask_space, centre_space, radius, distance)
    if names := mask_space.unplaced:
        known = map(short, mask_space.structures)
        numbers = dict(zip(known, mask_space.n_vertices, strict=True))
        words = " and ".join(f"{name} ({numbers[name]} vertices)" for name in names)
        raise ValueError(
            f"imgs hold {words}, but not where they lie. Pass mesh=(left, right), the "
            ".surf.gii files with as many vertices, or leave them out by mask_img."
        )
    found, order = [], []
    pieces = zip(mask_space.pieces(), centre_space.pieces(), strict=True)
    for (space, columns), (centres, rows) in pieces:
        if distance == "edges" and isinstance(space, VolumeSpace):
            raise ValueError(
                "distance='edges' is for surfaces only, but imgs hold voxels, too. Use "
                "a mask_img without them, or distance='geodesic'."
            )
        members = members_within(space, centres, radius, distance)
        # Neither sorted nor summed again: in the order of the piece, so that kernels
        # are those of the surface or the volume alone, to the last digit.
        marks = members.data, columns[members.indices], members.indptr
        shape = len(rows), mask_space.n_positions
        found.append(sparse.csr_array(marks, shape=shape))
        order.append(rows)
    return sparse.vstack(found, format="csr")[np.argsort(np.concatenate(order))]


def sphere_members(mask_space, centre_space, radius):
    """The voxels within a radius in mm of every centre."""
    radius = check_positive("radius", radius, " The radius is in mm.")
    n_centres, n_voxels = centre_space.n_positions, mask_space.n_positions
    if n_centres == 0 or n_voxels == 0:
        return sparse.csr_array((n_centres, n_voxels), dtype=bool)
    places, centres = in_mm(mask_space), in_mm(centre_space)
    members = _in_balls(places, centres, radius, radius)
    centre = _one_per_row(centre_features(mask_space, centre_space), n_voxels)
    # The first place with each centre's whole millimetres, -1 if none has.
    whole = map(tuple, places.astype(int)[::-1].tolist())
    first = dict(zip(whole, range(n_voxels - 1, -1, -1), strict=True))
    same = [first.get(tuple(c), -1) for c in centres.astype(int).tolist()]
    same = _one_per_row(np.array(same), n_voxels)
    members = members + (centre + same)
    members.sort_indices()
    return members


def ball_members(points, radius):
    """The points (n, 3) within a radius in mm of each of them."""
    members = _in_balls(points, points, radius * (1 + _ROUNDING), radius)
    members.sort_indices()
    return members


def _in_balls(places, centres, limit, radius):
    """The places (n, 3) up to a limit in mm away from every centre."""
    # One tree of all places, as in nilearn: trees of parts of them round distances
    # that equal the radius in other ways, and such voxels are many on a grid.
    tree = NearestNeighbors(radius=limit).fit(places)

    def find(rows):
        near = tree.radius_neighbors(centres[rows], return_distance=False)
        ends = np.cumsum([0, *map(len, near)], dtype=np.int32)
        columns = np.concatenate(near).astype(np.int32)
        marks = np.ones(len(columns), dtype=bool), columns, ends
        return sparse.csr_array(marks, shape=(len(rows), len(places)))

    return _find_all(find, len(centres), f"Spheres of radius {radius:g} mm")


def nearest_members(points):
    """The points (n, 3) as near to each other as nearest ones mostly are.

    On a grid these are the neighbours along its axes.
    """
    if len(points) < 2:
        return sparse.csr_array((len(points), len(points)), dtype=bool)
    distances, _ = NearestNeighbors(n_neighbors=1).fit(points).kneighbors()
    return ball_members(points, np.median(distances) * (1 + 1e-3))


def surface_members(mask_space, centre_space, radius, distance="geodesic"):
    """The vertices within a radius of every centre, along a mesh."""
    count = check_option("distance", distance, DISTANCES) == "edges"
    unit = "edges" if count else "mm"
    radius = check_positive("radius", radius, f" The radius is in {unit}.")
    if count and radius != int(radius):
        raise ValueError(
            f"Invalid value for 'radius': {radius!r}. Allowed: with distance='edges', "
            "a whole number of edges. For mm use distance='geodesic'."
        )
    check_same_mesh(mask_space, centre_space)
    places = np.concatenate(list(mask_space.coordinates.values()))
    number, n_members = numbered(mask_space.joined_mask), mask_space.n_positions
    i, j = mask_space.mesh_edges
    lengths = np.linalg.norm(places[i] - places[j], axis=1)
    graph = sparse.csr_array((lengths, (i, j)), shape=(len(places), len(places)))
    limit = radius * (1 + _ROUNDING)
    reach = limit * lengths.max(initial=1.0) if count else limit  # in mm
    centres = np.flatnonzero(centre_space.joined_mask)
    # Centres side by side are close together, so that boxes around some are small.
    order = np.lexsort(np.floor(places[centres] / reach).T)

    def find(rows):
        if len(rows) == 0:
            return sparse.csr_array((0, n_members), dtype=bool)
        starts = centres[order[rows]]
        low, high = places[starts].min(axis=0), places[starts].max(axis=0)
        near = ((places >= low - reach) & (places <= high + reach)).all(axis=1)
        near = np.flatnonzero(near)  # no path leads out of this box
        mesh, starts = graph[near][:, near], np.searchsorted(near, starts)
        # Slicing makes indices of 64 bits, by which SciPy 1.13 finds no paths.
        mesh.indices = mesh.indices.astype(np.int32)
        mesh.indptr = mesh.indptr.astype(np.int32)
        paths = csgraph.dijkstra(mesh, indices=starts, limit=limit, unweighted=count)
        reached = sparse.csr_array(np.isfinite(paths))
        return reached @ _one_per_row(number[near], n_members)

    what = f"Neighbourhoods of {radius:g} {unit}"
    members = _find_all(find, len(order), what, len(places))[np.argsort(order)]
    members.sort_indices()
    return members


def adjacency_members(adjacency, n_features):
    """Each feature and its neighbours in an adjacency, perhaps with names."""
    if isinstance(adjacency, tuple) and len(adjacency) == 2:
        adjacency, names = adjacency
        if names is not None and len(names) != n_features:
            raise ValueError(
                f"The adjacency names {len(names)} features; the data have "
                f"{n_features}. Take only these from it, in their order."
            )
    matrix = check_adjacency(adjacency, n_features, "adjacency", "feature")
    if not (np.isfinite(matrix.data) & (matrix.data >= 0)).all():
        raise ValueError(
            "adjacency must hold zeros, and values above zero for neighbours; got "
            "negative, NaN or infinite values. From distances in mm: distances < 10."
        )
    members = (matrix > 0) + sparse.eye_array(n_features, dtype=bool, format="csr")
    members.sort_indices()
    return members


def check_adjacency(matrix, n, name, noun, mend=""):
    """An adjacency (n, n) as a sparse matrix of real numbers."""
    try:
        if np.iscomplexobj(matrix):
            raise TypeError
        matrix = sparse.csr_array(matrix, dtype=float)
    except (TypeError, ValueError):
        raise TypeError(
            f"Invalid value for {name!r}: of type {type(matrix).__name__}. Allowed: a "
            "square matrix of real numbers, sparse or dense, or a tuple of a matrix "
            f"and names, such as mne.channels.find_ch_adjacency returns.{mend}"
        ) from None
    check_shape(
        matrix, (n, n), f"{name} must be a matrix with one row per {noun}", mend
    )
    return matrix


def keep_usable(members, usable, centre_index):
    """Take unusable features out of all rows; empty the rows of unusable centres."""
    usable, centre_index = np.asarray(usable, bool), np.asarray(centre_index)
    decoded = (centre_index < 0) | usable[centre_index]
    keep = usable[members.indices] & np.repeat(decoded, np.diff(members.indptr))
    if keep.all():
        return members  # they are large, and most often all of use
    before = np.cumsum(np.append(False, keep), dtype=members.indptr.dtype)
    marks = members.data[keep], members.indices[keep], before[members.indptr]
    return sparse.csr_array(marks, shape=members.shape)


def _one_per_row(columns, n_columns):
    """Mark one column in each row, none where it is -1."""
    marked = columns >= 0
    ends = np.concatenate([[0], np.cumsum(marked)]).astype(np.int32)
    marks = np.ones(ends[-1], dtype=bool), columns[marked].astype(np.int32), ends
    return sparse.csr_array(marks, shape=(len(columns), n_columns))


def _find_all(find, n_centres, what, width=None):
    """The members of all centres; a ValueError if they need a quarter of the memory.

    While they are found, a centre takes memory for `width` features; None: for its own.
    """
    sample = np.linspace(0, n_centres - 1, min(n_centres, _SAMPLE)).astype(int)
    of_each, memory = find(sample).nnz / max(1, len(sample)), usable_memory()
    needed = of_each * n_centres * _BYTES
    if memory is not None and needed > memory / 4:
        raise ValueError(
            f"{what} hold about {of_each:.0f} features each, and the lists of "
            f"{n_centres} centres need {word_bytes(needed)}; {word_bytes(memory / 4)} "
            "are allowed. Use a smaller radius, or fewer centres."
        )
    step = int(max(1, _BLOCK // max(1, of_each if width is None else width)))
    starts = range(0, max(1, n_centres), step)  # a block without rows has columns, too
    blocks = [find(np.arange(s, min(s + step, n_centres))) for s in starts]
    return sparse.csr_array(sparse.vstack(blocks, format="csr"))
