"""Where the positions of a result are: voxels, vertices, both, regions or features.

A position is one value of a map, e.g. the centre of a searchlight. A space says where
each of them is, paints values into an image, and packs itself into plain arrays that a
result file can hold.
"""

from dataclasses import dataclass, fields
from itertools import product
from numbers import Integral
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np
from scipy import sparse

from ..utils.checks import counted, quoted
from ..utils.files import same_content

_HEMISPHERES = ("left", "right")  # the parts that nilearn's surface images have
#: Grids are one if their corners are closer than this part of a voxel: programs round
#: affines differently.
_TOLERANCE = 0.01


@runtime_checkable
class Space(Protocol):
    """What decoding, results and figures ask of a space.

    A new kind of space is a class with all of this, and an entry in `kinds`. Spaces
    are equal if they are of one kind and have the same places.
    """

    kind: ClassVar[str]  #: its name, in files too
    noun: ClassVar[str]  #: what one position is called
    base: "Space"  #: the space that its images are of: itself, or that of the regions
    ending: ClassVar[str | None]  #: of the files of its images; None: no single file

    @property
    def n_positions(self):
        """Number of positions."""

    @property
    def points(self):
        """Places of the positions in mm, (n_positions, 3); None if they have none."""

    @property
    def edges(self):
        """Positions that touch, (2, n_edges), in any order and direction."""

    def columns(self):
        """Return the columns of a table that say where every position is, by name."""

    def describe(self):
        """Word how many positions there are, e.g. "530 voxels"."""

    def to_img(self, values, outside=0.0, dtype=np.float32, name="values"):
        """Make an image of values (n_positions,), or raise a ValueError."""

    def pack(self):
        """Return plain arrays, numbers and strings that `unpack_space` understands."""


def same_places(shape, affine, other):
    """Tell whether two affines have the voxels of a grid (x, y, z) at the same places.

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
    moved = np.abs(corners @ shift[:3, :3].T + shift[:3, 3]).max()
    sizes = np.sqrt((np.asarray(other)[:3, :3] ** 2).sum(axis=0))
    return bool(moved <= _TOLERANCE * sizes.min())


@dataclass(frozen=True, eq=False)
class SpaceBase:
    """What the spaces have in common."""

    kind: ClassVar[str]
    noun: ClassVar[str]
    ending: ClassVar[str | None] = None

    def __eq__(self, other):
        """Tell whether the other space is of the same kind and has the same places."""
        if type(self) is not type(other):
            return NotImplemented
        return same_content(self.pack(), other.pack())

    def __repr__(self):
        """Describe the space in one line."""
        return f"<{type(self).__name__}: {self.describe()}>"

    def describe(self):
        """Word how many positions there are, e.g. "530 voxels"."""
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
        if values.shape != (self.n_positions,):
            raise ValueError(
                f"values must hold one number for each of the {self.describe()}, shape "
                f"({self.n_positions},); got shape {values.shape}."
            )
        return self._image(values, outside, dtype, name)

    def pack(self):
        """Return plain arrays, numbers and strings that `unpack_space` understands."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        packed = {
            name: value.pack() if isinstance(value, SpaceBase) else value
            for name, value in values.items()
        }
        return {"kind": self.kind, **packed}


@dataclass(frozen=True, eq=False, repr=False)
class VolumeSpace(SpaceBase):
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

    kind: ClassVar[str] = "volume"
    noun: ClassVar[str] = "voxel"
    ending: ClassVar[str] = ".nii.gz"

    mask: np.ndarray
    affine: np.ndarray

    def __post_init__(self):
        """Normalize the arrays and check their shapes."""
        put = object.__setattr__  # the one way to set a field of a frozen object
        put(self, "mask", np.asarray(self.mask, dtype=bool))
        put(self, "affine", np.asarray(self.affine, dtype=float))
        if self.mask.ndim != 3:
            raise ValueError(
                f"A mask of voxels must have shape (x, y, z); got {self.mask.shape}."
            )
        if self.affine.shape != (4, 4) or not np.isfinite(self.affine).all():
            raise ValueError(
                "The affine must be a finite array of shape (4, 4), from voxel indices "
                f"to mm; got {self.affine}."
            )

    @property
    def base(self):
        """The space itself, whose images it makes."""
        return self

    @property
    def n_positions(self):
        """Number of voxels."""
        return int(np.count_nonzero(self.mask))

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
        """Return the columns of a table: x, y and z in mm."""
        return dict(zip("xyz", self.points.T, strict=True))

    def _image(self, values, outside, dtype, name):
        import nibabel  # slow to import, and only images need it

        data = np.full(self.mask.shape, outside, dtype=dtype)
        data[self.mask] = values
        img = nibabel.Nifti1Image(data, self.affine, dtype=dtype)
        img.header.set_xyzt_units("mm")
        return img


@dataclass(frozen=True, eq=False, repr=False)
class SurfaceSpace(SpaceBase):
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

    kind: ClassVar[str] = "surface"
    noun: ClassVar[str] = "vertex"

    coordinates: dict
    faces: dict
    mask: dict

    def __post_init__(self):
        """Normalize the arrays and check that they belong together."""
        parts = list(self.coordinates)
        if not parts or set(parts) - set(_HEMISPHERES):
            raise ValueError(
                f"Invalid parts of a surface: {parts}. Allowed: 'left', 'right'."
            )
        types = {"coordinates": float, "faces": np.intp, "mask": bool}
        for name, dtype in types.items():
            arrays = getattr(self, name)
            if set(arrays) != set(parts):
                raise ValueError(
                    f"{name} must have the parts {parts}; got {list(arrays)}."
                )
            arrays = {part: np.asarray(arrays[part], dtype=dtype) for part in parts}
            object.__setattr__(self, name, arrays)
        for part in parts:
            self._check_part(part)

    def _check_part(self, part):
        """Raise a ValueError unless the arrays of a part fit each other."""
        coordinates, faces = self.coordinates[part], self.faces[part]
        n = len(coordinates)
        if (
            coordinates.shape != (n, 3)
            or self.mask[part].shape != (n,)
            or faces.shape != (len(faces), 3)
            or not ((faces >= 0) & (faces < n)).all()
        ):
            raise ValueError(
                f"The {part} surface needs coordinates (n_vertices, 3), faces "
                "(n_faces, 3) with vertices from 0 to n_vertices - 1, and a mask "
                f"(n_vertices,); got {coordinates.shape}, {faces.shape} and "
                f"{self.mask[part].shape}."
            )

    @property
    def base(self):
        """The space itself, whose images it makes."""
        return self

    @property
    def n_positions(self):
        """Number of vertices in the mask."""
        return sum(int(np.count_nonzero(mask)) for mask in self.mask.values())

    @property
    def points(self):
        """Places of the vertices in mm, (n_positions, 3)."""
        return np.concatenate([x[self.mask[p]] for p, x in self.coordinates.items()])

    @property
    def joined_mask(self):
        """True for the vertices of all parts that are positions, (n_vertices,)."""
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
        """Return the columns of a table: hemisphere, vertex, and x, y, z in mm."""
        vertices = {part: np.flatnonzero(mask) for part, mask in self.mask.items()}
        counts = [len(numbers) for numbers in vertices.values()]
        return {
            "hemisphere": np.repeat(list(vertices), counts),
            "vertex": np.concatenate(list(vertices.values())),
            **dict(zip("xyz", self.points.T, strict=True)),
        }

    def split(self, values):
        """Return the part of the values that each part of the surface has, by name."""
        counts = [np.count_nonzero(mask) for mask in self.mask.values()]
        pieces = np.split(np.asarray(values), np.cumsum(counts)[:-1])
        return dict(zip(self.mask, pieces, strict=True))

    def _image(self, values, outside, dtype, name):
        from nilearn.surface import InMemoryMesh, SurfaceImage

        data = {}
        for part, piece in self.split(values).items():
            data[part] = np.full(self.mask[part].shape, outside, dtype=dtype)
            data[part][self.mask[part]] = piece
        mesh = {p: InMemoryMesh(self.coordinates[p], self.faces[p]) for p in data}
        return SurfaceImage(mesh, data)


@dataclass(frozen=True, eq=False, repr=False)
class RegionSpace(SpaceBase):
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
    members : array of int, shape (2, n), or None
        Where regions overlap: the index of a region, and that of a voxel or vertex in
        it, for everything that is in a region. None: what `labels` says.

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

    kind: ClassVar[str] = "regions"
    noun: ClassVar[str] = "region"

    names: np.ndarray
    ids: np.ndarray
    base: Space
    labels: np.ndarray
    members: np.ndarray | None = None

    def __post_init__(self):
        """Normalize the arrays and check that they belong together."""
        put = object.__setattr__
        put(self, "names", np.asarray(self.names, dtype=str))
        put(self, "ids", np.asarray(self.ids, dtype=np.int64))
        put(self, "labels", np.asarray(self.labels, dtype=np.int64))
        shapes = self.names.shape, self.labels.shape
        if shapes != (self.ids.shape, (self.base.n_positions,)) or self.ids.ndim != 1:
            raise ValueError(
                "Regions need one name per id, and labels for each of the "
                f"{self.base.describe()}; got {shapes[0]} names, {self.ids.shape} ids "
                f"and {shapes[1]} labels."
            )
        known = np.isin(self.labels, [0, *self.ids]).all()
        if len(np.unique(self.ids)) != len(self.ids) or 0 in self.ids or not known:
            raise ValueError(
                "The ids of regions must be whole numbers other than 0, each used "
                "once, and every label must be one of them, or 0 for no region."
            )
        if self.members is not None:
            put(self, "members", np.asarray(self.members, dtype=np.int64))
            self._check_members()

    def _check_members(self):
        """Raise a ValueError unless members are pairs of a region and a place."""
        shape = self.n_positions, self.base.n_positions
        pairs = self.members
        if pairs.ndim != 2 or len(pairs) != 2 or (pairs < 0).any():
            raise ValueError(
                "The members of regions must be two rows, of the indices of regions "
                f"and of voxels or vertices; got an array of shape {pairs.shape}."
            )
        if (pairs >= np.array(shape)[:, np.newaxis]).any():
            raise ValueError(
                f"The members of regions go up to {pairs.max(axis=1).tolist()}, beyond "
                f"{shape[0]} regions or the {self.base.describe()}."
            )

    @property
    def n_positions(self):
        """Number of regions."""
        return len(self.ids)

    def find(self, region):
        """Return the position of a region, given by name or by number in the atlas."""
        if isinstance(region, str):
            found = np.flatnonzero(self.names == region)
            known, what = self.names, "name"
        elif isinstance(region, Integral) and not isinstance(region, bool):
            found = np.flatnonzero(self.ids == region)
            known, what = self.ids, "number"
        else:
            raise TypeError(
                f"Invalid value for 'region': {region!r}. Allowed: the name of a "
                "region, or its number in the atlas."
            )
        if len(found) > 1:
            raise ValueError(
                f"{len(found)} regions are called {region!r}; choose one by its "
                f"number: {quoted(self.ids[found].tolist(), 10)}."
            )
        if len(found) == 0:
            raise ValueError(
                f"There is no region of the {what} {region!r}. The {what}s are: "
                f"{quoted(known.tolist(), 10)}."
            )
        return int(found[0])

    @property
    def index(self):
        """Index of the region of every voxel or vertex, -1 for none."""
        order = np.argsort(self.ids)
        if len(order) == 0:
            return np.full(self.labels.shape, -1)
        place = np.searchsorted(self.ids, self.labels, sorter=order)
        return np.where(self.labels == 0, -1, order[place.clip(max=len(order) - 1)])

    @property
    def membership(self):
        """What is in which region, sparse, of bool, (n_regions, base.n_positions)."""
        pairs = self.members
        if pairs is None:
            index = self.index
            pairs = index[index >= 0], np.flatnonzero(index >= 0)
        marks = np.ones(len(pairs[0]), dtype=bool)
        shape = self.n_positions, self.base.n_positions
        return sparse.csr_array((marks, tuple(pairs)), shape=shape)

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
        """Regions that share a voxel or vertex, or have neighbours, (2, n_edges)."""
        if self.n_positions < 2:
            return np.empty((2, 0), dtype=np.intp)  # meshes take seconds
        edges, n = self.base.edges, self.base.n_positions
        if self.members is None:  # faster, and they share nothing
            edges = self.index[edges]
            return edges[:, (edges >= 0).all(axis=0)]
        membership = self.membership
        marks = np.ones(edges.shape[1], dtype=bool), tuple(edges)
        near = sparse.csr_array(marks, shape=(n, n)) + sparse.eye_array(n, dtype=bool)
        touch = (membership @ near @ membership.T).tocoo()
        apart = touch.row != touch.col
        return np.stack([touch.row[apart], touch.col[apart]])

    def columns(self):
        """Return the columns of a table: region and, in a volume, x, y and z in mm."""
        points = self.points
        places = {} if points is None else dict(zip("xyz", points.T, strict=True))
        return {"region": self.names, **places}

    def _image(self, values, outside, dtype, name):
        # The last value is for index -1, no region.
        palette = np.append(values, outside)
        return self.base.to_img(palette[self.index], outside, dtype, name)


@dataclass(frozen=True, eq=False, repr=False)
class FeatureSpace(SpaceBase):
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

    kind: ClassVar[str] = "features"
    noun: ClassVar[str] = "feature"

    names: np.ndarray | None
    n: int

    def __post_init__(self):
        """Normalize the names and check their number."""
        object.__setattr__(self, "n", int(self.n))
        if self.names is None:
            return
        object.__setattr__(self, "names", np.asarray(self.names, dtype=str))
        if self.names.shape != (self.n,):
            raise ValueError(
                f"{self.n} features need one name each, shape ({self.n},); got names "
                f"of shape {self.names.shape}."
            )

    @property
    def base(self):
        """The space itself, whose images it makes."""
        return self

    @property
    def n_positions(self):
        """Number of features."""
        return self.n

    @property
    def points(self):
        """None, as features have no places."""
        return None

    @property
    def edges(self):
        """No features touch."""
        return np.empty((2, 0), dtype=np.intp)

    def columns(self):
        """Return the column of a table: the feature's name or index."""
        return {"feature": np.arange(self.n) if self.names is None else self.names}

    def _image(self, values, outside, dtype, name):
        raise ValueError(
            "There is no image of this result: its features are columns of an array "
            "and have no place in a brain. Use result.to_dataframe() or "
            "result.scores, or run the analysis on images."
        )


def numbered(mask):
    """Count the True places of a mask; -1 elsewhere."""
    numbers = np.full(mask.shape, -1)
    numbers[mask] = np.arange(np.count_nonzero(mask))
    return numbers
