"""Which features are decoded together at a position, and which positions touch.

Pairs of touching positions are what clusters of a map grow along.

Members are a sparse boolean array, one row per position (sphere, vertex, feature or
region), one column per feature of the data.
"""

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph
from sklearn.feature_extraction.image import grid_to_graph
from sklearn.neighbors import NearestNeighbors

from ..utils.checks import check_option, check_positive, word_bytes
from .space import RegionSpace, SurfaceSpace, VolumeSpace


def touching(space):
    """Find the pairs of positions that touch each other.

    Voxels touch at their faces (six neighbours), vertices along an edge of the mesh.
    Two regions touch if a voxel or vertex of one touches one of the other. Plain
    features touch nothing; see :func:`touching_from`.

    Parameters
    ----------
    space : VolumeSpace, SurfaceSpace, RegionSpace or FeatureSpace
        Where the positions are.

    Returns
    -------
    pairs : ndarray of int, shape (2, n_pairs)
        Indices of two positions each, the lower one first, each pair once.

    Examples
    --------
    >>> import numpy as np
    >>> touching(VolumeSpace(np.ones((2, 2, 1)), np.eye(4)))
    array([[0, 0, 1, 2],
           [1, 2, 3, 3]])
    """
    n, pairs = space.n_positions, np.empty((2, 0), dtype=np.intp)
    if isinstance(space, VolumeSpace) and n:
        return touching_from(grid_to_graph(*space.mask.shape, mask=space.mask))
    if isinstance(space, SurfaceSpace):
        pairs = numbered(joined_mask(space))[mesh_edges(space)]
    if isinstance(space, RegionSpace):
        pairs = space.index[touching(space.base)]
    i, j = pairs[:, (pairs >= 0).all(axis=0)]
    return touching_from(sparse.csr_array((np.ones(len(i)), (i, j)), shape=(n, n)))


def touching_from(adjacency):
    """Find the pairs of features of which one is a neighbour of the other.

    Parameters
    ----------
    adjacency : sparse or dense matrix, shape (n_features, n_features)
        Not zero for neighbours, e.g. the rows of :func:`adjacency_members`. The
        diagonal does not count, and one direction is enough.

    Returns
    -------
    pairs : ndarray of int, shape (2, n_pairs)
        Indices of two features each, the lower one first, each pair once.

    Examples
    --------
    >>> touching_from([[1, 1, 0], [0, 1, 0], [1, 0, 1]])
    array([[0, 0],
           [1, 2]])
    """
    graph = sparse.csr_array(adjacency).astype(bool)
    both = sparse.csr_array(sparse.triu(graph + graph.T, k=1))
    both.sort_indices()
    return np.stack(both.nonzero()).astype(np.intp)


def own_columns(mask_space, centre_space):
    """Find the feature that every centre lies in.

    Parameters
    ----------
    mask_space, centre_space : VolumeSpace or SurfaceSpace
        The features, and the centres: on any grid, or on the same meshes. If both are
        the same space, of any kind, every centre is its own feature.

    Returns
    -------
    index : ndarray of int, shape (n_centres,)
        Column of the data, -1 for centres outside of the mask.

    Raises
    ------
    TypeError, ValueError
        If a volume meets a surface, or if the meshes differ.

    Examples
    --------
    >>> import numpy as np
    >>> mask = np.array([True, False, True]).reshape(3, 1, 1)
    >>> data, everywhere = VolumeSpace(mask, np.eye(4)), np.ones((3, 1, 1))
    >>> own_columns(data, VolumeSpace(everywhere, np.eye(4)))
    array([ 0, -1,  1])
    """
    if mask_space == centre_space:
        return np.arange(mask_space.n_positions)
    if isinstance(mask_space, SurfaceSpace):
        check_same_mesh(mask_space, centre_space)
        return numbered(joined_mask(mask_space))[joined_mask(centre_space)]
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
    """Raise an error unless both are the same surface."""
    kinds = isinstance(mask_space, SurfaceSpace), isinstance(centre_space, SurfaceSpace)
    same = all(kinds) and list(mask_space.mask) == list(centre_space.mask)
    for part in mask_space.mask if same else ():
        for name in ("coordinates", "faces"):
            each = getattr(mask_space, name)[part], getattr(centre_space, name)[part]
            same = same and np.array_equal(*each)
    if not same:
        raise ValueError(
            f"The centres are {centre_space.describe()}, which are not on the meshes "
            f"of the data, {mask_space.describe()}. Give both on the same meshes, with "
            "the same parts, coordinates and faces."
        )


def in_mm(space):
    """Return the centres of voxels in mm, rounded just as nilearn rounds them."""
    from nilearn.image import coord_transform  # slow to import

    return np.stack(coord_transform(*np.nonzero(space.mask), space.affine), axis=1)


def joined_mask(space):
    """Return the masks of all parts of a surface, one after the other."""
    return np.concatenate(list(space.mask.values()))


def mesh_edges(space):
    """Return the vertices at both ends of each edge, in both directions, (2, n).

    Vertices are counted on from part to part; no edge joins two parts.
    """
    starts = np.cumsum([0, *map(len, space.mask.values())])[:-1]
    meshes = zip(space.faces.values(), starts, strict=True)
    faces = np.concatenate([faces + start for faces, start in meshes])
    edges = np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]])
    return np.unique(np.concatenate([edges, edges[:, ::-1]]), axis=0).T


def numbered(mask):
    """Count the True places of a mask; -1 elsewhere."""
    numbers = np.full(mask.shape, -1)
    numbers[mask] = np.arange(np.count_nonzero(mask))
    return numbers


DISTANCES = ("geodesic", "edges")
_BLOCK = 2**24  # pairs of a centre and a feature that are looked at in one go
_BYTES = 10  # of a member: its column and its value, twice while rows are joined
_SAMPLE = 100  # centres that tell how large all neighbourhoods will be
_ROUNDING = 1e-6  # of distances between coordinates, which files hold as float32


def sphere_members(mask_space, centre_space, radius, *, max_bytes=None):
    """Find the voxels within a radius of every centre of a searchlight [1]_.

    The spheres are those of :class:`nilearn.decoding.SearchLight`: the voxels of the
    mask whose centres are at most the radius away, and always the voxel that the centre
    of the sphere lies in. nilearn also adds the first voxel whose coordinates have the
    same whole millimetres as the centre's, which can be another one where voxels are
    small: below 2 mm, or somewhat more on oblique grids.

    Parameters
    ----------
    mask_space : VolumeSpace
        The voxels of the data.
    centre_space : VolumeSpace
        The centres of the spheres. They may lie on another grid, and outside of the
        mask.
    radius : float
        In mm.
    max_bytes : float or None, default=None
        Memory that the result and its making may take; None for no limit.

    Returns
    -------
    members : scipy.sparse.csr_array of bool, shape (n_centres, n_voxels)
        Row i marks the voxels of sphere i. Rows of centres with no voxel in reach are
        empty.

    Raises
    ------
    TypeError, ValueError
        If the radius is not a number above zero, or if the spheres are too large for
        the memory.

    References
    ----------
    .. [1] Kriegeskorte, N., Goebel, R., & Bandettini, P. (2006). Information-based
       functional brain mapping. Proceedings of the National Academy of Sciences, 103,
       3863-3868.

    Examples
    --------
    >>> import numpy as np
    >>> from mvpa_kfda.data.space import VolumeSpace
    >>> space = VolumeSpace(np.ones((3, 3, 3)), np.diag([2.0, 2.0, 2.0, 1.0]))
    >>> sphere_members(space, space, radius=2.5).sum(axis=1)[:5]
    array([4, 5, 4, 5, 6])
    """
    radius = check_positive("radius", radius, " The radius is in mm.")
    n_centres, n_voxels = centre_space.n_positions, mask_space.n_positions
    if n_centres == 0 or n_voxels == 0:
        return sparse.csr_array((n_centres, n_voxels), dtype=bool)
    places, centres = in_mm(mask_space), in_mm(centre_space)
    # One tree of the whole mask, as in nilearn: trees of parts of it round distances
    # that equal the radius in other ways, and such voxels are many on a grid.
    tree = NearestNeighbors(radius=radius).fit(places)

    def find(rows):
        found = tree.radius_neighbors(centres[rows], return_distance=False)
        ends = np.cumsum([0, *map(len, found)], dtype=np.int32)
        columns = np.concatenate(found).astype(np.int32)
        marks = np.ones(len(columns), dtype=bool), columns, ends
        return sparse.csr_array(marks, shape=(len(rows), n_voxels))

    expected = _expected_members(find, n_centres)
    _check_room(expected, n_centres, f"Spheres of radius {radius:g} mm", max_bytes)
    own = _one_per_row(own_columns(mask_space, centre_space), n_voxels)
    same = _one_per_row(_same_whole_mm(places, centres), n_voxels)
    members = _collect(find, n_centres, expected // n_centres) + (own + same)
    members.sort_indices()
    return members


def surface_members(
    mask_space, centre_space, radius, distance="geodesic", *, max_bytes=None
):
    """Find the vertices within a radius of every centre along a mesh [1]_.

    Paths run along the edges of the mesh and through all of its vertices, also through
    those outside of the mask; only vertices of the mask are members. A path along edges
    is somewhat longer than the shortest one across the triangles. Hemispheres never
    mix.

    Parameters
    ----------
    mask_space : SurfaceSpace
        The vertices of the data.
    centre_space : SurfaceSpace
        The centres, on the same meshes.
    radius : float
        In mm; with ``distance="edges"`` a whole number of edges.
    distance : {"geodesic", "edges"}, default="geodesic"
        Length of a path: of its edges in mm, or their number.
    max_bytes : float or None, default=None
        Memory that the result and its making may take; None for no limit.

    Returns
    -------
    members : scipy.sparse.csr_array of bool, shape (n_centres, n_vertices)
        Row i marks the vertices around centre i, the centre among them if the mask has
        it.

    Raises
    ------
    TypeError, ValueError
        If the radius or the distance is not valid, if the meshes differ, or if the
        neighbourhoods are too large for the memory.

    References
    ----------
    .. [1] Chen, Y., et al. (2011). Cortical surface-based searchlight decoding.
       NeuroImage, 56, 582-592.

    Examples
    --------
    >>> import numpy as np
    >>> from mvpa_kfda.data.space import SurfaceSpace
    >>> corners = np.array([[0.0, 0, 0], [3, 0, 0], [3, 4, 0], [6, 4, 0]])
    >>> faces, mask = {"left": [[0, 1, 2], [1, 2, 3]]}, {"left": np.ones(4)}
    >>> space = SurfaceSpace({"left": corners}, faces, mask)
    >>> surface_members(space, space, radius=4).sum(axis=1)
    array([2, 3, 3, 2])
    """
    check_option("distance", distance, DISTANCES)
    unit = "mm" if distance == "geodesic" else "edges"
    radius = check_positive("radius", radius, f" The radius is in {unit}.")
    if distance == "edges" and radius != int(radius):
        raise ValueError(
            f"Invalid value for 'radius': {radius!r}. Allowed: with distance='edges', "
            "a whole number of edges. For mm use distance='geodesic'."
        )
    check_same_mesh(mask_space, centre_space)
    find, order = _finder(mask_space, centre_space, radius, distance)
    n_centres = centre_space.n_positions
    expected = _expected_members(find, n_centres)
    _check_room(expected, n_centres, f"Neighbourhoods of {radius:g} {unit}", max_bytes)
    width = sum(map(len, mask_space.mask.values()))
    members = _collect(find, n_centres, width)[np.argsort(order)]
    members.sort_indices()
    return members


def adjacency_members(adjacency, n_features):
    """Find each feature's neighbours in an adjacency matrix.

    Parameters
    ----------
    adjacency : sparse or dense matrix, shape (n_features, n_features), or tuple
        Row i has a value above zero for every neighbour of feature i. A feature always
        belongs to its own neighbourhood, whatever the diagonal. The matrix need not be
        symmetric: feature i may see j without being seen by it, as with a fixed number
        of nearest neighbours. (For clusters, :func:`touching_from` takes two features
        as neighbours if one of them sees the other.) A tuple is of a matrix and names,
        as :func:`mne.channels.find_ch_adjacency` returns it.
    n_features : int
        Number of features of the data.

    Returns
    -------
    members : scipy.sparse.csr_array of bool, shape (n_features, n_features)
        Row i marks feature i and its neighbours.

    Raises
    ------
    TypeError
        If the adjacency is not numeric.
    ValueError
        If it does not fit the features, or holds negative, NaN or infinite values.

    Examples
    --------
    >>> import numpy as np
    >>> chain = np.diag([1, 1, 1], k=1)
    >>> adjacency_members(chain + chain.T, n_features=4).sum(axis=1)
    array([2, 3, 3, 2])
    """
    names = None
    if isinstance(adjacency, tuple) and len(adjacency) == 2:
        adjacency, names = adjacency
    if names is not None and len(names) != n_features:
        raise ValueError(
            f"The adjacency names {len(names)} features; the data have {n_features}. "
            "Take its rows and columns of the data's features, in their order."
        )
    try:
        if np.iscomplexobj(adjacency):
            raise TypeError
        matrix = sparse.csr_array(adjacency, dtype=float)
    except (TypeError, ValueError):
        raise TypeError(
            f"Invalid value for 'adjacency': of type {type(adjacency).__name__}. "
            "Allowed: a square matrix of real numbers, sparse or dense, or a tuple of "
            "a matrix and names."
        ) from None
    if matrix.shape != (n_features, n_features):
        raise ValueError(
            f"adjacency must have shape ({n_features}, {n_features}), one row per "
            f"feature; got {matrix.shape}."
        )
    if not (np.isfinite(matrix.data) & (matrix.data >= 0)).all():
        raise ValueError(
            "adjacency must hold zeros, and values above zero for neighbours; got "
            "negative, NaN or infinite values. From distances in mm: distances < 10."
        )
    members = (matrix > 0) + sparse.eye_array(n_features, dtype=bool, format="csr")
    members.sort_indices()
    return members


def region_members(labels, ids):
    """Find the features of every region.

    Parameters
    ----------
    labels : array of int, shape (n_features,)
        Region of each feature; numbers that are no region's are of no region.
    ids : array of int, shape (n_regions,)
        Numbers of the regions, each once.

    Returns
    -------
    members : scipy.sparse.csr_array of bool, shape (n_regions, n_features)
        Row i marks the features of region ``ids[i]``; it is empty if there are none.

    Examples
    --------
    >>> region_members([7, 0, 3, 7], ids=[3, 5, 7]).toarray().astype(int)
    array([[0, 0, 1, 0],
           [0, 0, 0, 0],
           [1, 0, 0, 1]])
    """
    labels, ids = np.asarray(labels), np.asarray(ids)
    shape = len(ids), len(labels)
    if len(ids) == 0:
        return sparse.csr_array(shape, dtype=bool)
    order = np.argsort(ids)
    place = np.searchsorted(ids, labels, sorter=order).clip(max=len(ids) - 1)
    rows = order[place]
    columns = np.flatnonzero(ids[rows] == labels)
    marks = np.ones(len(columns), dtype=bool), (rows[columns], columns)
    return sparse.csr_array(marks, shape=shape)


def keep_usable(members, usable, centre_index):
    """Take unusable features out of all rows, and empty the rows of unusable centres.

    Parameters
    ----------
    members : scipy.sparse.csr_array of bool, shape (n_centres, n_features)
        Who is decoded together.
    usable : array of bool, shape (n_features,)
        False for features that cannot be decoded, e.g. constant ones.
    centre_index : array of int, shape (n_centres,)
        The centres' own features, as :func:`own_columns` finds them; -1 for none.

    Returns
    -------
    kept : scipy.sparse.csr_array of bool, shape (n_centres, n_features)
        The members that are usable.

    Examples
    --------
    >>> import numpy as np
    >>> chain = adjacency_members(np.diag([1, 1], k=1), n_features=3)
    >>> keep_usable(chain, [True, False, True], [0, 1, -1]).toarray().astype(int)
    array([[1, 0, 0],
           [0, 0, 0],
           [0, 0, 1]])
    """
    usable, centre_index = np.asarray(usable, bool), np.asarray(centre_index)
    decoded = (centre_index < 0) | usable[centre_index]
    keep = usable[members.indices] & np.repeat(decoded, np.diff(members.indptr))
    if keep.all():
        return members  # they are large, and most often all of use
    before = np.cumsum(np.append(False, keep), dtype=members.indptr.dtype)
    marks = members.data[keep], members.indices[keep], before[members.indptr]
    return sparse.csr_array(marks, shape=members.shape)


def _same_whole_mm(places, centres):
    """Return the first place with each centre's whole millimetres, -1 if none has."""
    whole = places.astype(int)[::-1].tolist()
    first = dict(zip(map(tuple, whole), range(len(whole) - 1, -1, -1), strict=True))
    return np.array([first.get(tuple(c), -1) for c in centres.astype(int).tolist()])


def _one_per_row(columns, n_columns):
    """Mark one column in each row, none where it is -1."""
    some = columns >= 0
    ends = np.concatenate([[0], np.cumsum(some)]).astype(np.int32)
    marks = np.ones(ends[-1], dtype=bool), columns[some].astype(np.int32), ends
    return sparse.csr_array(marks, shape=(len(columns), n_columns))


def _finder(mask_space, centre_space, radius, distance):
    """Return a function that finds the members of centres on a mesh, and their order.

    The function looks only where a path of that length can lead to, in a box around the
    centres it is given. The order puts centres side by side that are close together.
    """
    places = np.concatenate(list(mask_space.coordinates.values()))
    number, n_members = numbered(joined_mask(mask_space)), mask_space.n_positions
    i, j = mesh_edges(mask_space)
    lengths = np.linalg.norm(places[i] - places[j], axis=1)
    graph = sparse.csr_array((lengths, (i, j)), shape=(len(places), len(places)))
    count, limit = distance == "edges", radius * (1 + _ROUNDING)
    reach = limit * lengths.max(initial=1.0) if count else limit  # in mm
    centres = np.flatnonzero(joined_mask(centre_space))
    order = np.lexsort(np.floor(places[centres] / reach).T)

    def find(rows):
        if len(rows) == 0:
            return sparse.csr_array((0, n_members), dtype=bool)
        some = centres[order[rows]]
        low, high = places[some].min(axis=0) - reach, places[some].max(axis=0) + reach
        near = np.flatnonzero(((places >= low) & (places <= high)).all(axis=1))
        mesh, sources = graph[near][:, near], np.searchsorted(near, some)
        paths = csgraph.dijkstra(mesh, indices=sources, limit=limit, unweighted=count)
        reached = sparse.csr_array(np.isfinite(paths))
        return reached @ _one_per_row(number[near], n_members)

    return find, order


def _expected_members(find, n_centres):
    """Estimate the number of all members from some centres."""
    if n_centres == 0:
        return 0
    some = np.linspace(0, n_centres - 1, min(n_centres, _SAMPLE)).astype(int)
    return find(some).nnz / len(some) * n_centres


def _check_room(n_members, n_centres, what, max_bytes):
    """Raise a ValueError if so many members would need more than the memory allows."""
    needed = n_members * _BYTES
    if max_bytes is not None and needed > max_bytes:
        raise ValueError(
            f"{what} hold about {n_members / n_centres:.0f} features each; with "
            f"{n_centres} centres their lists need {word_bytes(needed)}, and "
            f"{word_bytes(max_bytes)} are allowed. Use a smaller radius, or fewer "
            "centres."
        )


def _collect(find, n_centres, width):
    """Find the members of all centres, a block of them at a time.

    Looking for the members of one centre takes memory for `width` features.
    """
    step = int(max(1, _BLOCK // max(1, width)))
    starts = range(0, max(1, n_centres), step)  # a block without rows has columns, too
    blocks = [find(np.arange(s, min(s + step, n_centres))) for s in starts]
    return sparse.csr_array(sparse.vstack(blocks, format="csr"))
