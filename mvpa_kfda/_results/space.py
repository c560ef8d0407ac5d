"""Where the positions of a result are: voxels, vertices, regions or plain features.

A position is one value of a map, e.g. the centre of a searchlight. A space says where
each of them is, paints values into an image, and packs itself into plain arrays that a
result file can hold.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .._checks import check_option
from .brain_space import Space, SurfaceSpace, VolumeSpace

__all__ = [
    "FeatureSpace",
    "RegionSpace",
    "SurfaceSpace",
    "VolumeSpace",
    "unpack_space",
]


@dataclass(frozen=True, eq=False, repr=False)
class RegionSpace(Space):
    """Regions of an atlas.

    Parameters
    ----------
    names : array of str, shape (n_regions,)
        Names of the regions; two regions may have the same.
    ids : array of int, shape (n_regions,)
        Their numbers in the atlas, not 0 and each used once.
    base : VolumeSpace or SurfaceSpace
        The voxels or vertices that the regions consist of.
    labels : array of int, shape (base.n_positions,)
        Number of the region that each voxel or vertex is in, 0 for none.

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
    base: VolumeSpace | SurfaceSpace
    labels: np.ndarray

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

    @property
    def n_positions(self):
        """Number of regions."""
        return len(self.ids)

    @property
    def index(self):
        """Index of the region of every voxel or vertex, -1 for none."""
        order = np.argsort(self.ids)
        if len(order) == 0:
            return np.full(self.labels.shape, -1)
        place = np.searchsorted(self.ids, self.labels, sorter=order)
        return np.where(self.labels == 0, -1, order[place.clip(max=len(order) - 1)])

    @property
    def points(self):
        """Centres of mass in mm, NaN for empty regions; None on a surface."""
        if not isinstance(self.base, VolumeSpace):
            return None  # the centre of a curved area does not lie on it
        within = self.index >= 0
        index, places = self.index[within], self.base.points[within]
        counts = np.bincount(index, minlength=self.n_positions)
        sums = [np.bincount(index, x, minlength=self.n_positions) for x in places.T]
        empty = np.where(counts, counts, np.nan)
        return np.stack(sums, axis=1) / empty[:, np.newaxis]

    def columns(self):
        """Return the columns of a table: region and, in a volume, x, y and z in mm."""
        points = self.points
        places = {} if points is None else dict(zip("xyz", points.T, strict=True))
        return {"region": self.names, **places}

    def _image(self, values, outside, dtype):
        # The last value is for index -1, no region.
        palette = np.append(values, outside)
        return self.base.to_img(palette[self.index], outside, dtype)


@dataclass(frozen=True, eq=False, repr=False)
class FeatureSpace(Space):
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
    def n_positions(self):
        """Number of features."""
        return self.n

    def columns(self):
        """Return the column of a table: the feature's name or index."""
        return {"feature": np.arange(self.n) if self.names is None else self.names}

    def _image(self, values, outside, dtype):
        raise ValueError(
            "There is no image of this result: its features are columns of an array "
            "and have no place in a brain. Use result.to_dataframe() or "
            "result.scores, or run the analysis on images."
        )


SPACES = {
    cls.kind: cls for cls in (VolumeSpace, SurfaceSpace, RegionSpace, FeatureSpace)
}


def unpack_space(packed):
    """Make a space of what its `pack` returned.

    Parameters
    ----------
    packed : dict
        Plain arrays and strings by name; "kind" says which space it is.

    Returns
    -------
    space : VolumeSpace, SurfaceSpace, RegionSpace or FeatureSpace
        Equal to the space that was packed.

    Raises
    ------
    ValueError
        If the kind is not known, or if the arrays do not belong together.

    Examples
    --------
    >>> unpack_space(FeatureSpace(None, 12).pack())
    <FeatureSpace: 12 features>
    """
    values = dict(packed)
    cls = SPACES[check_option("kind", values.pop("kind", None), SPACES)]
    if "base" in values:
        values["base"] = unpack_space(values["base"])
    return cls(**values)
