"""Where the columns of CIFTI files are: vertices and voxels of structures, parcels."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..utils.checks import counted
from .space import FeatureSpace, SpaceBase, SurfaceSpace, VolumeSpace

_PREFIX = "CIFTI_STRUCTURE_"  # begins the names of all structures
_CORTEX = f"{_PREFIX}CORTEX_"  # and those of both hemispheres


@dataclass(frozen=True, eq=False, repr=False)
class GrayordinateSpace(SpaceBase):
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

    kind: ClassVar[str] = "grayordinates"
    noun: ClassVar[str] = "grayordinate"
    ending: ClassVar[str] = ".dscalar.nii"

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
        put = object.__setattr__
        _normalize_axis(self)
        put(self, "mask", np.asarray(self.mask, dtype=bool))
        for name, dtype in {"coordinates": float, "faces": np.intp}.items():
            arrays = getattr(self, name)
            put(self, name, {p: np.asarray(x, dtype) for p, x in arrays.items()})
        if self.mask.shape != self.vertex.shape:
            raise ValueError(
                f"A mask of {counted(len(self.vertex), self.noun)} must have shape "
                f"({len(self.vertex)},); got {self.mask.shape}."
            )
        for part, corners in self.coordinates.items():
            put_here = self.structures == cortex(part)
            if (self.n_vertices[put_here] != len(corners)).any():
                raise ValueError(
                    f"The {part} mesh has {len(corners)} vertices, the file's surface "
                    f"{self.n_vertices[put_here][0]}."
                )

    @property
    def base(self):
        """The space itself, whose images it makes."""
        return self

    @property
    def n_positions(self):
        """Number of vertices and voxels in the mask."""
        return int(np.count_nonzero(self.mask))

    def pieces(self):
        """Yield spaces that never mix, each with the positions that it consists of.

        The meshes of the cortex are one `SurfaceSpace`, each structure of voxels is a
        `VolumeSpace`. Surfaces without a mesh are in none.
        """
        where = np.flatnonzero(self.mask)
        structure, vertex = self.structure[where], self.vertex[where]
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
            within = np.flatnonzero(structure == number)
            volume, order = self._volume_of(where[within])
            yield volume, within[order]

    def _volume_of(self, columns):
        """Return the space of some columns that are voxels, and its order of them."""
        voxels = self.voxel[columns].T
        order = np.argsort(np.ravel_multi_index(voxels, self.shape))
        mask = np.zeros(self.shape, dtype=bool)
        mask[tuple(voxels)] = True
        return VolumeSpace(mask, self.affine), order

    @property
    def volume(self):
        """The voxels of all structures, a `VolumeSpace`, and their positions."""
        columns = np.flatnonzero(self.mask)
        positions = np.flatnonzero(self.vertex[columns] < 0)
        volume, order = self._volume_of(columns[positions])
        return volume, positions[order]

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
        points = np.full((len(self.mask), 3), np.nan)
        if self.affine is not None:
            inside = self.vertex < 0
            affine = self.affine
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
        """Return the columns of a table: structure, vertex (-1: a voxel), x, y, z."""
        points, vertex = self.points, self.vertex[self.mask]
        names = np.array([short(name) for name in self.structures], dtype=str)
        columns = {"structure": names[self.structure[self.mask]]}
        if (vertex >= 0).any():
            columns["vertex"] = vertex
        if points is not None:
            columns |= dict(zip("xyz", points.T, strict=True))
        return columns

    def axis(self):
        """Return the axis of the file, a `nibabel.cifti2.BrainModelAxis`."""
        from nibabel.cifti2 import BrainModelAxis

        surfaces = {str(n): int(k) for n, k in self._surfaces if k}
        return BrainModelAxis(
            self.structures[self.structure],
            self.voxel,
            self.vertex,
            self.affine,
            None if self.shape is None else tuple(self.shape.tolist()),
            surfaces,
        )

    @property
    def _surfaces(self):
        """Pairs of a structure's name and the number of its vertices."""
        return zip(self.structures, self.n_vertices, strict=True)

    def _image(self, values, outside, dtype, name):
        row = np.full(len(self.mask), outside, dtype=dtype)
        row[self.mask] = values
        return _scalar_image(row, self.axis(), name, "ConnDenseScalar")


@dataclass(frozen=True, eq=False, repr=False)
class ParcelSpace(FeatureSpace):
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

    kind: ClassVar[str] = "parcels"
    noun: ClassVar[str] = "parcel"
    ending: ClassVar[str] = ".pscalar.nii"

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
        object.__setattr__(self, "parcel", np.asarray(self.parcel, dtype=np.intp))
        _normalize_axis(self)
        known = (self.parcel >= 0) & (self.parcel < self.n)
        if self.parcel.shape != self.vertex.shape or not known.all():
            raise ValueError("Every vertex and voxel must be in one of the parcels.")

    def columns(self):
        """Return the column of a table: the parcel's name."""
        return {self.noun: self.names}

    def axis(self):
        """Return the axis of the file, a `nibabel.cifti2.ParcelsAxis`."""
        from nibabel.cifti2 import ParcelsAxis

        voxels, vertices = [], np.empty(self.n, dtype=object)
        for number in range(self.n):
            own = self.parcel == number
            voxels.append(self.voxel[own & (self.vertex < 0)].astype("i4"))
            vertices[number] = {
                str(self.structures[k]): self.vertex[own & (self.structure == k)]
                for k in np.unique(self.structure[own & (self.vertex >= 0)])
            }
        shape = None if self.shape is None else tuple(self.shape.tolist())
        surfaces = zip(self.structures.tolist(), self.n_vertices.tolist(), strict=True)
        return ParcelsAxis(
            self.names, voxels, vertices, self.affine, shape, dict(surfaces)
        )

    def _image(self, values, outside, dtype, name):
        row = np.asarray(values, dtype=dtype)
        return _scalar_image(row, self.axis(), name, "ConnParcelScalr")


def cortex(hemisphere):
    """Return CIFTI's name of the cortex of a hemisphere, "left" or "right"."""
    return _CORTEX + hemisphere.upper()


def short(structure):
    """Return a structure's name without what all of them begin with."""
    return str(structure).removeprefix(_PREFIX)


def _normalize_axis(space):
    """Make arrays of what was read of a CIFTI axis, and check their shapes."""
    types = {"structures": str, "n_vertices": np.intp, "structure": np.intp}
    types |= {"vertex": np.intp, "voxel": np.intp, "shape": np.intp, "affine": float}
    for name, dtype in types.items():
        value = getattr(space, name)
        if value is not None:
            object.__setattr__(space, name, np.asarray(value, dtype=dtype))
    n, n_structures = len(space.structure), len(space.structures)
    fit = space.vertex.shape == (n,) and space.voxel.shape == (n, 3)
    fit &= space.n_vertices.shape == (n_structures,)
    if not fit or (space.structure >= n_structures).any():
        raise ValueError(
            "The columns of a CIFTI file need a structure, a vertex and a voxel each; "
            f"got {space.structure.shape}, {space.vertex.shape} and "
            f"{space.voxel.shape}, and {space.n_vertices.shape} numbers of vertices "
            f"for {n_structures} structures."
        )
    inside = space.vertex < 0
    voxels = space.voxel[inside]
    grid = space.shape is not None and space.affine is not None
    if len(voxels) and not (grid and ((voxels >= 0) & (voxels < space.shape)).all()):
        raise ValueError("The voxels of a CIFTI file must lie in its grid.")
    limits = space.n_vertices[space.structure[~inside]]
    if (space.vertex[~inside] >= limits).any():
        raise ValueError("The vertices of a CIFTI file must lie on its surfaces.")
    vertices = np.stack([space.structure[~inside], space.vertex[~inside]], axis=1)
    if any(len(np.unique(x, axis=0)) < len(x) for x in (vertices, voxels)):
        raise ValueError("A CIFTI file must hold every vertex and voxel once.")


def _scalar_image(row, axis, name, intent):
    """Return a CIFTI image of one map."""
    from nibabel.cifti2 import Cifti2Image, ScalarAxis

    header = ScalarAxis([name]), axis
    img = Cifti2Image(row[np.newaxis], header, dtype=row.dtype)
    img.nifti_header.set_intent(intent)
    return img
