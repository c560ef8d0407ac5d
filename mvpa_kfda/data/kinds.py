"""The kinds of spaces by name: where a file says that the positions of a result are."""

from ..utils.checks import check_option
from .grayordinates import GrayordinateSpace, ParcelSpace
from .space import FeatureSpace, RegionSpace, SurfaceSpace, VolumeSpace

#: Kind of space -> its class.
SPACES = {
    cls.kind: cls
    for cls in (
        VolumeSpace,
        SurfaceSpace,
        GrayordinateSpace,
        RegionSpace,
        FeatureSpace,
        ParcelSpace,
    )
}


def unpack_space(packed):
    """Return the space of what its `pack` returned, else raise a ValueError."""
    values = dict(packed)
    cls = SPACES[check_option("kind", values.pop("kind", None), SPACES)]
    if "base" in values:
        values["base"] = unpack_space(values["base"])
    return cls(**values)
