"""Grids of voxels and meshes of vertices: which positions touch, and which coincide.

Pairs of touching positions are what clusters of a map grow along.
"""

import numpy as np
from scipy import sparse
from sklearn.feature_extraction.image import grid_to_graph

from .._results.space import RegionSpace, SurfaceSpace, VolumeSpace


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
