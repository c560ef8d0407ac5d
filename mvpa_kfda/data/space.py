"""Where the positions of a result are: voxels, vertices, both, regions or features.

A position is one value of a map, e.g. the centre of a searchlight. A space says where
each of them is, paints values into an image, and packs itself into plain arrays that a
result file can hold.
"""

from dataclasses import dataclass, replace
from itertools import product
from numbers import Integral
from typing import ClassVar

import numpy as np
from scipy import sparse

from ..utils.checks import (
    check_option,
    check_shape,
    counted,
    did_you_mean,
    invalid,
    quoted,
)
from ..utils.files import same_content

HEMISPHERES = ("left", "right")  # the parts that nilearn's surface images have
_PREFIX = "CIFTI_STRUCTURE_"  # begins the names of all structures in CIFTI files
#: Grids are one if their corners are closer than this part of a voxel: programs round
#: affines differently.
_TOLERANCE = 0.01


#: Kind of space -> its class.
SPACES = {}


def same_places(shape, affine, other):
    """Whether two affines have the voxels of a grid (x, y, z) at the same places.

    Examples
    --------
    >>> import numpy as np
    >>> affine = np.diag([3.0, 3.0, 3.0, 1.0])
    >>> same_places((50, 60, 50), affine, affine + 1e-4)
    True
    >>> same_places((50, 60, 50), affine, 1.001 * affine)
    False
    """
    corners = np.array(list(product(*[(0, length) for length in shape])))
    shift = np.asarray(affine) - other
    farthest = np.abs(corners @ shift[:3, :3].T + shift[:3, 3]).max()
    sizes = np.sqrt((np.asarray(other)[:3, :3] ** 2).sum(axis=0))
    return bool(farthest <= _TOLERANCE * sizes.min())


@dataclass(frozen=True, eq=False)
class Space:
    """What decoding, results and figures ask of a space.

    A new kind of space is a class with `columns` (the columns of a table that say where
    every position is, by name), `base` (the space that its images are of: itself, or
    that of the regions), a `mask` of the places of its images or what else says its
    `n_positions`, and what is named here. Spaces are equal if they are of one kind and
    have the same places.
    """

    kind: ClassVar[str]  #: its name, in files too
    noun: ClassVar[str]  #: what one position is called
    ending: ClassVar[str | None]  #: of its images' files; None: no single file
    #: Places of the positions in mm, (n_positions, 3); None if they have none.
    points: ClassVar[np.ndarray | None]
    #: Positions that touch, (2, n_edges), in any order and direction.
    edges: ClassVar[np.ndarray]

    def __init_subclass__(cls, kind, noun, ending=None):
        """Name a kind of space, and enter it into `SPACES`."""
        cls.kind, cls.noun, cls.ending = kind, noun, ending
        SPACES[kind] = cls

    def __eq__(self, other):
        """Whether the other space is of the same kind and has the same places."""
        return isinstance(other, Space) and same_content(self.pack(), other.pack())

    def __repr__(self):
        """The space in one line."""
        return f"<{type(self).__name__}: {self.describe()}>"

    @property
    def joined_mask(self):
        """True for the places of an image that are positions, (n_places,)."""
        return self.mask.ravel()

    @property
    def n_positions(self):
        """Number of positions."""
        return int(np.count_nonzero(self.joined_mask))

    def describe(self):
        """How many positions there are, e.g. "530 voxels"."""
        return counted(self.n_positions, self.noun)

    def to_img(self, values, outside=0.0, dtype=np.float32, name="values"):
        """Make an image: a volume with the mask's affine, or one on the same meshes.

        Parameters
        ----------
        values : array, shape (n_positions,)
            Value of every voxel or vertex, or of every region, painted all over.
        outside : float, default=0.0
            Value everywhere else.
        dtype : type, default=float32
            Type of the image's numbers.
        name : str, default="values"
            Name of the map in a CIFTI image; others have none.

        Returns
        -------
        img : nibabel.Nifti1Image, nilearn.surface.SurfaceImage or nibabel.Cifti2Image
            The image, on the whole grid, on all vertices, or on the CIFTI file's axis.

        Raises
        ------
        ValueError
            If there is not one value per position, or if they have no place.
        """
        values = np.asarray(values)
        what = f"values must hold one number for each of the {self.describe()}"
        check_shape(values, (self.n_positions,), what)
        return self._image(values, outside, dtype, name)

    def take(self, chosen):
        """The space of chosen positions (n_positions,), of bool."""
        return replace(self, mask=self._on_places(chosen, False, bool))

    def part(self, chosen):
        """The space of chosen positions alone, with images of no others."""
        return self.take(chosen)

    def _on_places(self, values, outside, dtype):
        """Values (n_positions,) on all places of an image, as the mask has them."""
        places = np.full(self.joined_mask.shape, outside, dtype=dtype)
        places[self.joined_mask] = values
        return self._shaped(places)

    def _shaped(self, places):
        return places.reshape(self.mask.shape)

    def pack(self):
        """Plain arrays, numbers and strings that `unpack_space` understands."""
        values = {"kind": self.kind, **vars(self)}
        return values | ({"base": self.base.pack()} if "base" in values else {})

    def _make_arrays(self, **types):
        """Make arrays of fields, or of those of each part of a brain; None stays."""
        for name, dtype in types.items():
            value = getattr(self, name)
            if isinstance(value, dict):
                parts = [part for part in self.coordinates if part in value]
                value = {part: np.asarray(value[part], dtype) for part in parts}
            elif value is not None:
                value = np.asarray(value, dtype)
            object.__setattr__(self, name, value)  # the object is frozen


#: The `base` of spaces whose images are their own.
_ITSELF = property(lambda self: self)


@dataclass(frozen=True, eq=False, repr=False)
class VolumeSpace(Space, kind="volume", noun="voxel", ending=".nii.gz"):
    """Voxels of a mask, in C order, which is also the order of nilearn's maskers.

    Parameters
    ----------
    mask : array of bool, shape (x, y, z)
        True where a position is.
    affine : array, shape (4, 4)
        From voxel indices to mm.

    Examples
    --------
    >>> import numpy as np
    >>> mask = np.array([[[True, False]], [[True, True]]])
    >>> space = VolumeSpace(mask, np.diag([3.0, 3.0, 3.0, 1.0]))
    >>> space.points
    array([[0., 0., 0.],
           [3., 0., 0.],
           [3., 0., 3.]])
    >>> space.to_img([1, 2, 3]).get_fdata()[1, 0]
    array([2., 3.])
    """

    base = _ITSELF

    mask: np.ndarray
    affine: np.ndarray

    def __post_init__(self):
        """Normalize the arrays and check their shapes."""
        self._make_arrays(mask=bool, affine=float)
        if self.mask.ndim != 3:
            raise ValueError(f"A mask needs shape (x, y, z); got {self.mask.shape}.")
        if self.affine.shape != (4, 4) or not np.isfinite(self.affine).all():
            what = "a finite array of shape (4, 4), from voxel indices to mm"
            raise ValueError(f"The affine must be {what}; got {self.affine}.")

    @property
    def shape(self):
        """Shape of the grid, as images have it."""
        return self.mask.shape

    @property
    def voxels(self):
        """Indices of the voxels in the grid, (n_positions, 3)."""
        return np.argwhere(self.mask)

    @property
    def voxel_size(self):
        """Volume of a voxel in cubic mm."""
        return float(abs(np.linalg.det(self.affine[:3, :3])))

    @property
    def points(self):
        """Centres of the voxels in mm, (n_positions, 3)."""
        return self.voxels @ self.affine[:3, :3].T + self.affine[:3, 3]

    @property
    def edges(self):
        """Voxels with a face in common, (2, n_edges)."""
        from sklearn.feature_extraction.image import grid_to_graph  # slow to import

        if self.n_positions == 0:
            return np.empty((2, 0), dtype=np.intp)
        graph = grid_to_graph(*self.mask.shape, mask=self.mask)
        return np.stack([graph.row, graph.col])[:, graph.row < graph.col]

    def columns(self):
        """The columns of a table: x, y and z in mm."""
        return _xyz(self.points)

    def _image(self, values, outside, dtype, name):
        import nibabel  # slow to import, and only images need it

        data = self._on_places(values, outside, dtype)
        img = nibabel.Nifti1Image(data, self.affine, dtype=dtype)
        img.header.set_xyzt_units("mm")
        return img


@dataclass(frozen=True, eq=False, repr=False)
class SurfaceSpace(Space, kind="surface", noun="vertex"):
    """Vertices of meshes, part after part.

    Parameters
    ----------
    coordinates : dict of str -> array, shape (n_vertices, 3)
        Part, "left" or "right", -> places of all its vertices in mm.
    faces : dict of str -> array of int, shape (n_faces, 3)
        Part -> vertices at the corners of its triangles.
    mask : dict of str -> array of bool, shape (n_vertices,)
        Part -> True where a position is.

    Examples
    --------
    >>> import numpy as np
    >>> corners = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0]])
    >>> space = SurfaceSpace(
    ...     {"left": corners}, {"left": [[0, 1, 2]]}, {"left": [True, False, True]}
    ... )
    >>> space.columns()["vertex"]
    array([0, 2])
    >>> space.to_img([5, 6]).data.parts["left"]
    array([5., 0., 6.], dtype=float32)
    """

    base = _ITSELF

    coordinates: dict
    faces: dict
    mask: dict

    def __post_init__(self):
        """Normalize the arrays and check that they belong together."""
        parts = [{*each} for each in (self.coordinates, self.faces, self.mask)]
        if not set() < parts[0] <= {*HEMISPHERES} or parts != parts[:1] * 3:
            raise ValueError(
                "A surface needs coordinates, faces and a mask of the same parts. "
                f"Allowed: 'left', 'right'; got {quoted(map(sorted, parts))}."
            )
        self._make_arrays(coordinates=float, faces=np.intp, mask=bool)
        for part, coordinates in self.coordinates.items():
            faces, mask, n = self.faces[part], self.mask[part], len(coordinates)
            shapes = coordinates.shape, faces.shape, mask.shape
            fit = shapes == ((n, 3), (len(faces), 3), (n,))
            if not fit or not ((faces >= 0) & (faces < n)).all():
                raise ValueError(
                    f"The {part} surface needs coordinates (n, 3), faces (n_faces, 3) "
                    f"of vertices from 0 to n - 1, a mask (n,); got {quoted(shapes)}."
                )

    @property
    def points(self):
        """Places of the vertices in mm, (n_positions, 3)."""
        return np.concatenate([x[self.mask[p]] for p, x in self.coordinates.items()])

    @property
    def joined_mask(self):
        """True for the vertices that are positions, part after part, (n_vertices,)."""
        return np.concatenate(list(self.mask.values()))

    @property
    def mesh_edges(self):
        """Vertices of all parts at the ends of each edge, both ways, (2, n_ends)."""
        starts = np.cumsum([0, *map(len, self.mask.values())])[:-1]
        meshes = zip(self.faces.values(), starts, strict=True)
        faces = np.concatenate([faces + start for faces, start in meshes])
        edges = np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]])
        return np.unique(np.concatenate([edges, edges[:, ::-1]]), axis=0).T

    @property
    def edges(self):
        """Positions joined by an edge of the mesh, (2, n_edges)."""
        edges = numbered(self.joined_mask)[self.mesh_edges]
        return edges[:, (edges >= 0).all(axis=0)]

    def columns(self):
        """The columns of a table: hemisphere, vertex, and x, y, z in mm."""
        inside, lengths = self.joined_mask, [*map(len, self.mask.values())]
        return {
            "hemisphere": np.repeat(list(self.mask), lengths)[inside],
            "vertex": np.concatenate([*map(np.arange, lengths)])[inside],
            **_xyz(self.points),
        }

    def _shaped(self, places):
        return by_part(places, self.mask)

    def _image(self, values, outside, dtype, name):
        from nilearn.surface import InMemoryMesh, SurfaceImage

        data = self._on_places(values, outside, dtype)
        mesh = {p: InMemoryMesh(self.coordinates[p], self.faces[p]) for p in data}
        return SurfaceImage(mesh, data)


@dataclass(frozen=True, eq=False, repr=False)
class RegionSpace(Space, kind="regions", noun="region"):
    """Regions of an atlas.

    Parameters
    ----------
    names : array of str, shape (n_regions,)
        Names of the regions; two regions may have the same.
    ids : array of int, shape (n_regions,)
        Their numbers in the atlas, not 0 and each used once.
    base : VolumeSpace, SurfaceSpace, GrayordinateSpace or another
        The voxels or vertices that the regions consist of.
    labels : array of int, shape (base.n_positions,)
        Number of the region that each voxel or vertex is in, 0 for none. Images are
        painted by it.

    Examples
    --------
    >>> import numpy as np
    >>> base = VolumeSpace(np.ones((4, 1, 1)), np.eye(4))
    >>> space = RegionSpace(["V1", "V2"], [7, 3], base, [3, 7, 7, 0])
    >>> space.to_img([0.5, 0.9]).get_fdata().ravel().round(2)
    array([0.9, 0.5, 0.5, 0. ])
    >>> space.columns()["x"]
    array([1.5, 0. ])
    """

    names: np.ndarray
    ids: np.ndarray
    base: Space
    labels: np.ndarray

    def __post_init__(self):
        """Normalize the arrays and check that they belong together."""
        self._make_arrays(names=str, ids=np.int64, labels=np.int64)
        n, base = self.ids.size, self.base.describe()
        check_shape(self.ids, (n,), "Regions need ids in a row")
        check_shape(self.names, (n,), "Regions need one name per id")
        what = f"Regions need labels for each of the {base}"
        check_shape(self.labels, (self.base.n_positions,), what)
        known = np.isin(self.labels, [0, *self.ids]).all()
        if len(np.unique(self.ids)) != len(self.ids) or 0 in self.ids or not known:
            raise ValueError(
                "The ids of regions must be other than 0 and each used once, and "
                "every label must be one of them, or 0 for no region."
            )

    @property
    def n_positions(self):
        """Number of regions."""
        return len(self.ids)

    def find(self, region):
        """The position of a region, given by name or by number in the atlas."""
        if isinstance(region, bool) or not isinstance(region, str | Integral):
            allowed = "the name of a region, or its number in the atlas"
            raise invalid("region", region, allowed, TypeError)
        by_name = isinstance(region, str)
        known, what = (self.names, "name") if by_name else (self.ids, "number")
        if len(found := np.flatnonzero(known == region)) > 1:
            mend = f"choose by number: {quoted(self.ids[found].tolist(), 10)}"
            raise ValueError(f"{len(found)} regions are called {region!r}; {mend}.")
        if len(found) == 0:
            there = f" The {what}s are: {quoted(known.tolist(), 10)}."
            there = did_you_mean(region, known) * by_name + there
            raise ValueError(f"There is no region of the {what} {region!r}.{there}")
        return int(found[0])

    def part(self, chosen):
        """The space of chosen regions alone, in the same base."""
        ids = self.ids[chosen]
        labels = np.where(np.isin(self.labels, ids), self.labels, 0)
        return RegionSpace(self.names[chosen], ids, self.base, labels)

    @property
    def index(self):
        """Index of the region of every voxel or vertex, -1 for none."""
        known = np.append(0, self.ids)
        order = np.argsort(known)
        return order[np.searchsorted(known, self.labels, sorter=order)] - 1

    @property
    def membership(self):
        """What is in which region, sparse, of bool, (n_regions, base.n_positions)."""
        index = self.index
        pairs = index[index >= 0], np.flatnonzero(index >= 0)
        marks = np.ones(len(pairs[0]), dtype=bool)
        shape = self.n_positions, self.base.n_positions
        return sparse.csr_array((marks, pairs), shape=shape)

    @property
    def points(self):
        """Centres of mass in mm, NaN for empty regions; None on a surface."""
        if not isinstance(self.base, VolumeSpace):
            return None  # the centre of a curved area does not lie on it
        membership = self.membership.astype(float)
        counts = np.diff(membership.indptr)
        empty = np.where(counts, counts, np.nan)
        return (membership @ self.base.points) / empty[:, np.newaxis]

    @property
    def edges(self):
        """Regions whose voxels or vertices are neighbours, (2, n_edges)."""
        if self.n_positions < 2:
            return np.empty((2, 0), dtype=np.intp)  # meshes take seconds
        edges = self.index[self.base.edges]
        return edges[:, (edges >= 0).all(axis=0)]

    def columns(self):
        """The columns of a table: region and, in a volume, x, y and z in mm."""
        return {"region": self.names, **_xyz(self.points)}

    def _image(self, values, outside, dtype, name):
        # The last value is for index -1, no region.
        palette = np.append(values, outside)
        return self.base.to_img(palette[self.index], outside, dtype, name)


@dataclass(frozen=True, eq=False, repr=False)
class FeatureSpace(Space, kind="features", noun="feature"):
    """Columns of an array, which have no place in a brain.

    Parameters
    ----------
    names : array of str, shape (n,), or None
        Names of the columns.
    n : int
        Number of columns.

    Examples
    --------
    >>> FeatureSpace(["Fz", "Oz"], 2).columns()["feature"].tolist()
    ['Fz', 'Oz']
    """

    base = _ITSELF
    points = None
    edges = np.empty((2, 0), dtype=np.intp)

    names: np.ndarray | None
    n: int

    def __post_init__(self):
        """Normalize the names and check their number."""
        object.__setattr__(self, "n", int(self.n))
        self._make_arrays(names=str)
        if self.names is not None:
            what = f"{self.n} features need one name each"
            check_shape(self.names, (self.n,), what)

    @property
    def n_positions(self):
        """Number of features."""
        return self.n

    def columns(self):
        """The column of a table: the feature's name or index."""
        return {self.noun: np.arange(self.n) if self.names is None else self.names}

    def take(self, chosen):
        """The space of chosen positions (n_positions,), of bool."""
        if chosen.all():
            return self
        return FeatureSpace(self.columns()["feature"][chosen], chosen.sum())

    def _image(self, values, outside, dtype, name):
        raise ValueError(
            "There is no image of this result: features of an array have no place in a "
            "brain. Use result.to_dataframe() or result.scores, or decode images."
        )


@dataclass(frozen=True, eq=False, repr=False)
class GrayordinateSpace(
    Space, kind="grayordinates", noun="grayordinate", ending=".dscalar.nii"
):
    """Vertices of surfaces and voxels of other structures, as a CIFTI file has them.

    The fields hold the file's axis of brain models; positions are in its order.

    Parameters
    ----------
    structures : array of str, shape (n_structures,)
        CIFTI's names of the brain structures.
    n_vertices : array of int, shape (n_structures,)
        Vertices of each structure's whole surface; 0: it consists of voxels.
    structure : array of int, shape (n,)
        Structure that each column of the file is in, an index.
    vertex : array of int, shape (n,)
        Its vertex, -1 for a voxel.
    voxel : array of int, shape (n, 3)
        Its voxel, -1 for a vertex.
    shape : array of int, shape (3,), or None
        Shape of the voxels' grid; None without voxels.
    affine : array, shape (4, 4), or None
        From voxel indices to mm.
    mask : array of bool, shape (n,)
        True where a position is.
    coordinates, faces : dict of str -> array
        "left", "right" -> mesh of that hemisphere's cortex as in `SurfaceSpace`; empty
        if none was given.

    Examples
    --------
    >>> space = GrayordinateSpace(
    ...     ["CIFTI_STRUCTURE_THALAMUS_LEFT"],
    ...     [0],
    ...     [0, 0],
    ...     [-1, -1],
    ...     [[0, 0, 1], [0, 0, 2]],
    ...     [1, 1, 3],
    ...     np.diag([2.0, 2.0, 2.0, 1.0]),
    ...     [True, True],
    ...     {},
    ...     {},
    ... )
    >>> space.columns()["structure"].tolist(), space.columns()["z"].tolist()
    (['THALAMUS_LEFT', 'THALAMUS_LEFT'], [2.0, 4.0])
    """

    base = _ITSELF

    structures: np.ndarray
    n_vertices: np.ndarray
    structure: np.ndarray
    vertex: np.ndarray
    voxel: np.ndarray
    shape: np.ndarray | None
    affine: np.ndarray | None
    mask: np.ndarray
    coordinates: dict
    faces: dict

    def __post_init__(self):
        """Normalize the arrays and check that they belong together."""
        _check_axis(self)
        self._make_arrays(mask=bool, coordinates=float, faces=np.intp)
        n = counted(len(self.vertex), self.noun)
        check_shape(self.mask, self.vertex.shape, f"A mask of {n} needs one value each")
        for part, corners in self.coordinates.items():
            numbers = self.n_vertices[self.structures == cortex(part)]
            if (numbers != len(corners)).any():
                sizes = f"{len(corners)} vertices, the file's surface {numbers[0]}"
                raise ValueError(f"The {part} mesh has {sizes}.")

    def pieces(self):
        """Yield spaces that never mix, each with the positions that it consists of.

        The meshes of the cortex are one `SurfaceSpace`, each structure of voxels is a
        `VolumeSpace`. Surfaces without a mesh are in none.
        """
        structure, vertex = self.structure[self.mask], self.vertex[self.mask]
        masks, positions = {}, []
        for part, corners in self.coordinates.items():
            within = np.flatnonzero(self.structures[structure] == cortex(part))
            within = within[np.argsort(vertex[within])]
            masks[part] = np.zeros(len(corners), dtype=bool)
            masks[part][vertex[within]] = True
            positions.append(within)
        if masks:
            surface = SurfaceSpace(self.coordinates, self.faces, masks)
            yield surface, np.concatenate(positions)
        for number in np.flatnonzero(self.n_vertices == 0):
            yield self._volume_of(structure == number)

    @property
    def volume(self):
        """The voxels of all structures, a `VolumeSpace`, and their positions."""
        return self._volume_of(self.vertex[self.mask] < 0)

    def _volume_of(self, chosen):
        """The space of chosen positions, which are voxels, and its order of them."""
        positions = np.flatnonzero(chosen)
        voxels = self.voxel[self.mask][positions].T
        mask = np.zeros(self.shape, dtype=bool)
        mask[tuple(voxels)] = True
        order = np.argsort(np.ravel_multi_index(voxels, self.shape))
        return VolumeSpace(mask, self.affine), positions[order]

    @property
    def unplaced(self):
        """Names of the surfaces that hold positions but have no mesh."""
        placed = [cortex(part) for part in self.coordinates]
        here = np.unique(self.structure[self.mask])
        names = self.structures[here[self.n_vertices[here] > 0]].tolist()
        return [short(name) for name in names if name not in placed]

    @property
    def points(self):
        """Places of the positions in mm, NaN without a mesh; None if all are so."""
        points, affine = np.full((len(self.mask), 3), np.nan), self.affine
        if affine is not None:
            inside = self.vertex < 0
            points[inside] = self.voxel[inside] @ affine[:3, :3].T + affine[:3, 3]
        for part, corners in self.coordinates.items():
            within = self.structures[self.structure] == cortex(part)
            points[within] = corners[self.vertex[within]]
        points = points[self.mask]
        return None if np.isnan(points).all() else points

    @property
    def edges(self):
        """Positions that touch within a structure, (2, n_edges)."""
        edges = [positions[space.edges] for space, positions in self.pieces()]
        return np.concatenate([np.empty((2, 0), dtype=np.intp), *edges], axis=1)

    def columns(self):
        """The columns of a table: structure, vertex (-1: a voxel), x, y, z."""
        vertex = self.vertex[self.mask]
        names = np.array([short(name) for name in self.structures], dtype=str)
        columns = {"structure": names[self.structure[self.mask]]}
        if (vertex >= 0).any():
            columns["vertex"] = vertex
        return columns | _xyz(self.points)

    def axis(self):
        """The axis of the file, a `nibabel.cifti2.BrainModelAxis`."""
        from nibabel.cifti2 import BrainModelAxis

        names = self.structures[self.structure]
        return BrainModelAxis(names, self.voxel, self.vertex, *_grid_and_surfaces(self))

    def _image(self, values, outside, dtype, name):
        rows = self._on_places(values, outside, dtype)[np.newaxis]
        return cifti_image(rows, self.axis(), [name])


@dataclass(frozen=True, eq=False, repr=False)
class ParcelSpace(FeatureSpace, kind="parcels", noun="parcel", ending=".pscalar.nii"):
    """Parcels of a CIFTI file, features with names that are painted as a whole.

    Parameters
    ----------
    names : array of str, shape (n,)
        Names of the parcels.
    n : int
        Number of parcels.
    parcel : array of int, shape (m,)
        The parcel of each of its m vertices and voxels, an index.
    structures, n_vertices, structure, vertex, voxel, shape, affine
        Where these are, as in `GrayordinateSpace`; the structure of a voxel is -1.
    """

    parcel: np.ndarray
    structures: np.ndarray
    n_vertices: np.ndarray
    structure: np.ndarray
    vertex: np.ndarray
    voxel: np.ndarray
    shape: np.ndarray | None
    affine: np.ndarray | None

    def __post_init__(self):
        """Normalize the arrays and check that they belong together."""
        super().__post_init__()
        self._make_arrays(parcel=np.intp)
        _check_axis(self)
        known = (self.parcel >= 0) & (self.parcel < self.n)
        if self.parcel.shape != self.vertex.shape or not known.all():
            raise ValueError("Every vertex and voxel must be in one of the parcels.")

    @property
    def mask(self):
        """True for all parcels: images are always of all."""
        return np.ones(self.n, dtype=bool)

    def take(self, chosen):
        """All parcels, which images are always of."""
        return self

    def part(self, chosen):
        """The space of chosen parcels alone."""
        kept, parcel = chosen[self.parcel], numbered(chosen)[self.parcel]
        of = {name: getattr(self, name)[kept] for name in ("structure", "vertex")}
        of |= {"voxel": self.voxel[kept], "parcel": parcel[kept]}
        return replace(self, names=self.names[chosen], n=chosen.sum(), **of)

    def axis(self):
        """The axis of the file, a `nibabel.cifti2.ParcelsAxis`."""
        from nibabel.cifti2 import ParcelsAxis

        voxels, vertices = [], np.empty(self.n, dtype=object)
        for number in range(self.n):
            within = self.parcel == number
            voxels.append(self.voxel[within & (self.vertex < 0)].astype("i4"))
            vertices[number] = {
                str(self.structures[k]): self.vertex[within & (self.structure == k)]
                for k in np.unique(self.structure[within & (self.vertex >= 0)])
            }
        return ParcelsAxis(self.names, voxels, vertices, *_grid_and_surfaces(self))

    _image = GrayordinateSpace._image


def cortex(hemisphere):
    """CIFTI's name of the cortex of a hemisphere, "left" or "right"."""
    return f"{_PREFIX}CORTEX_{hemisphere.upper()}"


def short(structure):
    """A structure's name without what all of them begin with."""
    return str(structure).removeprefix(_PREFIX)


def _check_axis(space):
    """Make arrays of what was read of a CIFTI axis, and check that they fit."""
    space._make_arrays(structures=str, n_vertices=np.intp, structure=np.intp)
    space._make_arrays(vertex=np.intp, voxel=np.intp, shape=np.intp, affine=float)
    n, n_structures = len(space.structure), len(space.structures)
    shapes = space.vertex.shape, space.voxel.shape, space.n_vertices.shape
    fit = shapes == ((n,), (n, 3), (n_structures,))
    if not fit or (space.structure >= n_structures).any():
        raise ValueError(
            "The columns of a CIFTI file need a structure, a vertex and a voxel each; "
            f"got {n} of {n_structures} structures, and shapes {quoted(shapes)}."
        )
    inside = space.vertex < 0
    voxels, structure = space.voxel[inside], space.structure[~inside]
    grid = space.shape is not None and space.affine is not None
    if len(voxels) and not (grid and ((voxels >= 0) & (voxels < space.shape)).all()):
        raise ValueError("The voxels of a CIFTI file must lie in its grid.")
    if (space.vertex[~inside] >= space.n_vertices[structure]).any():
        raise ValueError("The vertices of a CIFTI file must lie on its surfaces.")
    vertices = np.stack([structure, space.vertex[~inside]], axis=1)
    if any(len(np.unique(x, axis=0)) < len(x) for x in (vertices, voxels)):
        raise ValueError("A CIFTI file must hold every vertex and voxel once.")


def _grid_and_surfaces(space):
    """Affine and shape of the voxels of a CIFTI axis, and vertices of its surfaces."""
    shape = None if space.shape is None else tuple(space.shape.tolist())
    numbers = zip(space.structures.tolist(), space.n_vertices.tolist(), strict=True)
    return space.affine, shape, {name: n for name, n in numbers if n}


def cifti_image(rows, columns, names=None):
    """A CIFTI image of rows (n, n_columns), called "row 1" and so on without names."""
    from nibabel.cifti2 import BrainModelAxis, Cifti2Image, ScalarAxis

    names = [f"row {i + 1}" for i in range(len(rows))] if names is None else names
    img = Cifti2Image(rows, (ScalarAxis(names), columns), dtype=rows.dtype)
    dense = isinstance(columns, BrainModelAxis)
    img.nifti_header.set_intent("ConnDenseScalar" if dense else "ConnParcelScalr")
    return img


def _xyz(points):
    """The columns of a table with places in mm; none for None."""
    return {} if points is None else dict(zip("xyz", points.T, strict=True))


def by_part(values, parts):
    """Values of vertices, one part of a surface after the other, by part."""
    ends = np.cumsum([*map(len, parts.values())])
    return dict(zip(parts, np.split(values, ends[:-1]), strict=True))


def numbered(mask):
    """The True places of a mask counted from 0; -1 elsewhere."""
    return np.where(mask, np.cumsum(mask).reshape(mask.shape) - 1, -1)


def unpack_space(packed):
    """The space of what its `pack` returned, else raise a ValueError."""
    values = dict(packed)
    cls = SPACES[check_option("kind", values.pop("kind", None), SPACES)]
    if "base" in values:
        values["base"] = unpack_space(values["base"])
    if values.pop("members", None) is not None:
        raise ValueError("Regions that overlap are no longer supported.")
    return cls(**values)
