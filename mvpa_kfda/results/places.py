"""Where the scores of a map are: times, sensors, sources, voxels, regions, or pairs.

The places of a map are what maps of several subjects must have in common. They know
their neighbours, word themselves, and pack into plain arrays that a file can hold.
"""

from dataclasses import dataclass, field, fields
from functools import cached_property
from numbers import Integral, Real
from os import PathLike

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ..data.space import SurfaceSpace, VolumeSpace, same_places, unpack_space
from ..inference.clusters import adjacency_among
from ..utils.axes import AXES, BY_COLUMN, point_of_axes
from ..utils.checks import counted, did_you_mean, enumerated, invalid, plural, quoted
from ..utils.files import same_content
from ..utils.rounding import brief, number, rounded
from ..viz.style import sample_edges
from .patterns import unpack_info

#: Coordinates that differ by less are the same; times are in seconds, places in mm.
_SAME = 1e-6


@dataclass(frozen=True, eq=False)
class Places:
    """The positions of a map."""

    #: Class of the results whose map this is, e.g. "TimeResult".
    kind: str
    #: Coordinates -> their column in a table, in the order of the map's dimensions.
    axes: dict
    #: Name -> coordinates along that axis, (n_along_axis,).
    coordinates: dict
    #: Pairs (2, n_pairs) of neighbouring sensors, sources or positions of a brain.
    pairs: np.ndarray | None = None
    #: Packed space of a map in a brain.
    space: dict | None = field(default=None, repr=False)
    #: The channels, as a file of MNE-Python.
    info_fif: np.ndarray | None = field(default=None, repr=False)
    #: What the source estimates of a map of sources are of, see `SourceTimeResult`.
    sources: dict | None = field(default=None, repr=False)

    @classmethod
    def of(cls, result):
        """Return the positions of the map of one subject's result."""
        more = ("adjacency", "space", "info_fif", "sources")
        return cls(
            type(result).__name__,
            dict(result.axes),
            {name: result.along(name) for name in result.axes},
            *(vars(result).get(name) for name in more),
        )

    @property
    def shape(self):
        """Number of positions along each axis, a tuple."""
        return tuple(len(self.coordinates[name]) for name in self.axes)

    @property
    def n_positions(self):
        """Number of positions in the whole map."""
        return int(np.prod(self.shape))

    @cached_property
    def geometry(self):
        """The geometry of positions in the brain; None for maps of epochs."""
        return None if self.space is None else unpack_space(self.space)

    @property
    def in_voxels(self):
        """Whether the positions are voxels of a volume."""
        return isinstance(self.geometry, VolumeSpace)

    @property
    def info(self):
        """The channels, an `mne.Info`; None if none were kept."""
        return None if self.info_fif is None else unpack_info(self.info_fif)

    def columns(self):
        """Return the columns of a table that say where every position is."""
        if self.geometry is not None:
            return self.geometry.columns()
        coordinates = [self.coordinates[name] for name in self.axes]
        grid = np.meshgrid(*coordinates, indexing="ij") if coordinates else []
        return {
            column: axis.ravel()
            for column, axis in zip(self.axes.values(), grid, strict=True)
        }

    def adjacency(self, counted=None):
        """Return which counted positions are neighbours; None: all of a lattice."""
        if self.pairs is None:
            if counted is not None and not np.all(counted):
                raise ValueError("All positions of a lattice must count.")
            return None
        if self.geometry is None:
            graph = sensor_time_adjacency(self.pairs, *self.shape)
            return graph if counted is None else graph[counted][:, counted]
        counted = np.ones(self.n_positions, bool) if counted is None else counted
        return adjacency_among(self.pairs, self.n_positions, np.flatnonzero(counted))

    def expand(self, values, counted, fill=np.nan):
        """Return values (..., n_counted) of counted positions (V,) as maps."""
        values = np.asarray(values)
        # A float for the fill value makes floats of whole numbers, but float32 stays.
        dtype = np.result_type(values.dtype, fill)
        maps = np.full((*values.shape[:-1], len(counted)), fill, dtype=dtype)
        maps[..., counted] = values
        return maps.reshape((*values.shape[:-1], *self.shape))

    def describe(self):
        """Describe the positions, e.g. "100 times from -0.2 to 0.79 s"."""
        if self.geometry is not None:
            return self.geometry.describe()
        return " x ".join(self._worded(name) for name in self.axes) or "one position"

    def noun(self, n):
        """What so many positions are called, without the number."""
        if self.geometry is not None:
            return plural(self.geometry.noun, n)
        return point_of_axes(self.axes, n)

    def at(self, position, name=str):
        """Where a position of the flattened map is, e.g. "at 0.12 s".

        `name` prints names that come from data.
        """
        row = {column: values[position] for column, values in self.columns().items()}
        if "region" in row:
            return f"in region {name(row['region'])}"
        for noun in ("feature", "parcel"):
            if noun in row:
                return f"at {noun} {name(row[noun])}"
        mm = ""
        if np.isfinite(row.get("x", np.nan)):
            mm = f"x, y, z = {', '.join(number(row[axis], 4) for axis in 'xyz')} mm"
        if "structure" in row:
            part = name(row["structure"])
            if row.get("vertex", -1) >= 0:
                part = f"vertex {row['vertex']} of {part}"
            return f"at {part}, {mm}" if mm else f"at {part}"
        if "hemisphere" in row:
            return f"at vertex {row['vertex']} of the {row['hemisphere']} hemisphere"
        if mm:
            return f"at {mm}"
        axes = [(BY_COLUMN[column], value) for column, value in row.items()]
        parts = [
            axis.place.format(brief(value) if axis.unit else name(value))
            for axis, value in axes
        ]
        return f"at {enumerated(parts)}"

    def _worded(self, name):
        """Word the coordinates along one axis."""
        values = self.coordinates[name]
        noun, unit = AXES[name].noun, AXES[name].end
        if not unit:
            return counted(len(values), noun)
        first, last = values[[0, -1]]
        if len(values) == 1:
            return f"1 {noun}, {rounded(first)}{unit}"
        ends = f"{rounded(first)} to {rounded(last)}{unit}"
        return f"{counted(len(values), noun)} from {ends}"

    def apart(self, other):
        """Return the seconds between times that count as the same; 0 where they are.

        Samples of recordings that were cut at other fractions of a sample belong to
        each other as long as they are less than half a sample apart.
        """
        return max([0.0, *(self._apart(other, name) for name in self._times())])

    def _times(self):
        """The axes of times."""
        return [name for name in self.axes if name in AXES and AXES[name].is_time]

    def _apart(self, other, name):
        """How far times along an axis are apart, if less than half a sample."""
        here, there = self.coordinates[name], other.coordinates.get(name, ())
        if len(here) != len(there) or len(here) < 2 or _same(here, there):
            return 0.0
        apart = float(np.abs(here - there).max())
        return apart if apart < np.diff(here).min() / 2 else 0.0

    def difference(self, other, within_sample=False):
        """Word how other places differ from these; empty if they are the same.

        With `within_sample`, times may differ as `apart` allows.
        """
        if self.kind != other.kind:
            return f"a {other.kind} instead of a {self.kind}"
        if self.geometry is not None:
            return _space_difference(self.geometry, other.geometry)
        for name in self.axes:
            near = (
                within_sample and name in self._times() and self._apart(other, name) > 0
            )
            if not (near or _same(self.coordinates[name], other.coordinates[name])):
                words = f"{other.describe()} instead of {self.describe()}"
                return f"{words}{self._first_difference(other, name)}"
        if not _same(self.pairs, other.pairs):
            nouns = [plural(AXES[x].noun) for x in self.axes if not AXES[x].unit]
            return f"other neighbouring {nouns[0]}"
        return ""

    def _first_difference(self, other, name):
        """Word the first place that differs, where the words alone would be equal."""
        here, there = self.coordinates[name], other.coordinates[name]
        if len(here) != len(there):
            return ""
        k = next(i for i in range(len(here)) if not _same(here[i : i + 1], there[i]))
        return f" (number {k + 1} is {there[k]} instead of {here[k]})"

    # ----------------------------------------------------------- what users ask for

    def find(self, wanted, option="where", one=False):
        """Which positions (shape) the value of an option means, of bool.

        A set is None for all, an array of bool, a row of a table of clusters, an image,
        a span of all times, or names. `One` position is what `position` takes or, along
        each axis, a coordinate or a span.
        """
        inside, parts = np.zeros(self.shape, dtype=bool), {}
        named = [name for name in self.axes if name in AXES and not AXES[name].unit]
        is_text, is_span = isinstance(wanted, str | list), isinstance(wanted, tuple)
        if one and self.geometry is not None:
            inside[self.position(wanted, option)] = True
            return inside
        if one:
            each = [wanted] if len(self.axes) == 1 else wanted
            if not isinstance(each, list | tuple) or len(each) != len(self.axes):
                raise invalid(option, wanted, self._allowed(option, one))
            parts = dict(zip(self.axes, each, strict=True))
        elif isinstance(getattr(wanted, "attrs", None), dict):
            inside.flat[self._members(wanted, option)] = True
            return inside
        elif isinstance(wanted, np.ndarray) and wanted.dtype == bool:
            if wanted.shape != self.shape:
                raise ValueError(
                    f"{option!r} has the shape {wanted.shape}, and the map "
                    f"{self.shape}. Allowed: {self._allowed(option)}."
                )
            return wanted
        elif self._takes_images and _is_image(wanted):
            from ..data.images import masked  # loads nilearn

            chosen = masked(self.geometry, wanted, option).joined_mask
            return chosen[self.geometry.joined_mask]
        elif self._has_regions and isinstance(wanted, str | list | Integral):
            each = wanted if isinstance(wanted, list) else [wanted]
            if not each:
                raise invalid(option, wanted, self._allowed(option))
            inside[[self.geometry.find(region) for region in each]] = True
            return inside
        elif is_span or (is_text and wanted):
            parts = dict.fromkeys(self._times() if is_span else named, wanted)
        if not one and wanted is not None and not parts:
            kind = ValueError if is_text or is_span else TypeError
            raise invalid(option, wanted, self._allowed(option), kind)
        chosen = [
            self.find_along(name, parts[name], option, self._allowed(option, one))
            if name in parts
            else np.ones(n, dtype=bool)
            for name, n in zip(self.axes, self.shape, strict=True)
        ]
        inside[np.ix_(*chosen)] = True
        return inside

    def find_along(self, name, wanted, option, allowed):
        """Which coordinates (n,) along an axis are meant: one, a span, or by names."""
        values, axis = self.coordinates[name], AXES[name]
        nouns = plural(axis.noun)
        if not axis.unit:
            names = wanted if isinstance(wanted, list) else [wanted]
            if not all(isinstance(each, str) for each in names):
                raise invalid(option, wanted, allowed)
            unknown = [each for each in names if each not in values]
            if unknown:
                known = quoted(values.tolist(), 20)
                raise ValueError(
                    f"Invalid value for {option!r}: {wanted!r}; no {axis.noun} is "
                    f"named {unknown[0]!r}.{did_you_mean(unknown[0], values)} The "
                    f"{nouns} are: {known}."
                )
            return np.isin(values, names)
        is_span = isinstance(wanted, list | tuple)
        ends = wanted if is_span else (wanted, wanted)
        if not _are_numbers(ends, 2) or not ends[0] <= ends[1]:
            raise invalid(option, wanted, allowed)
        if is_span:
            inside = (values >= ends[0] - _SAME) & (values <= ends[1] + _SAME)
        else:
            first, last = sample_edges(values)[[0, -1]]
            inside = np.zeros(len(values), dtype=bool)
            within = first - 1e-9 <= wanted <= last + 1e-9
            inside[np.abs(values - wanted).argmin()] = within
        if not inside.any():
            none = f"None of the {nouns} is between {ends[0]:g} and {ends[1]:g}"
            raise ValueError(
                f"Invalid value for {option!r}: {wanted!r}. "
                + (f"{none}{axis.end}; t" if is_span else "T")
                + f"he {nouns} go from {values[0]:g} to {values[-1]:g}{axis.end}."
            )
        return inside

    def position(self, wanted, option):
        """The one position in the brain, or of a feature, that is meant."""
        space = self.geometry
        columns = space.columns()
        wanted = wanted.tolist() if isinstance(wanted, np.ndarray) else wanted
        if self._has_regions and isinstance(wanted, str | Integral):
            return space.find(wanted)
        found = []
        is_point = _are_numbers(wanted, 3) and np.isfinite(wanted).all()
        if space.kind == "volume" and is_point and len(space.points):
            beside = space.points - np.asarray(wanted, float)
            distance = np.linalg.norm(beside, axis=1)
            found = [distance.argmin()]
            is_near = distance.min() <= np.linalg.norm(space.affine[:3, :3])
            if option == "place":  # the voxel that holds the point, half to either side
                away = np.abs(np.linalg.solve(space.affine[:3, :3], beside.T)).max(0)
                found, is_near = [away.argmin()], away.min() <= 0.5 + _SAME
            if not is_near:
                raise ValueError(
                    f"Invalid value for {option!r}: {wanted!r}. The nearest voxel of "
                    f"the mask, {self.at(distance.argmin())}, is {distance.min():.1f} "
                    "mm away. Choose a position inside it."
                )
        elif space.kind == "surface" and isinstance(wanted, list | tuple):
            if len(wanted) == 2:
                same = columns["hemisphere"] == str(wanted[0])
                found = np.flatnonzero(same & (columns["vertex"] == wanted[1]))
        elif isinstance(wanted, str) and space.noun in columns:
            found = np.flatnonzero(columns[space.noun].astype(str) == wanted)
        elif isinstance(wanted, Integral) and not isinstance(wanted, bool):
            found = [wanted] if 0 <= wanted < self.n_positions else []
        if len(found) != 1:
            raise invalid(option, wanted, self._allowed(option, one=True))
        return int(found[0])

    # ------------------------------------------------------------- a part, by places

    @property
    def axis_of_places(self):
        """The axis along which positions are sensors or in a brain; None without."""
        return next((x for x in self.axes if x not in AXES or not AXES[x].unit), None)

    def allowed_places(self):
        """What places may be given by."""
        if self.geometry is not None:
            words = self._allowed("place", one=True)
        else:
            words = f"the name of a {AXES[self.axis_of_places].noun}"
            words += ", a structure, or an mne.Label" * (self.sources is not None)
        return f"{words}; a list of these{', or an image' * self._takes_images}"

    def find_place(self, wanted):
        """Which coordinates (n,) along the axis of places are meant, of bool."""
        if self._takes_images and _is_image(wanted):
            return self.find(wanted, "place")
        wanted = wanted.tolist() if isinstance(wanted, np.ndarray) else wanted
        is_point = self.in_voxels and _are_numbers(wanted, 3)
        each = wanted if isinstance(wanted, list) and not is_point else [wanted]
        if not each:
            raise invalid("place", wanted, self.allowed_places())
        if self.geometry is None:
            if self.sources is not None:
                wanted = [name for one in each for name in self._vertices_of(one)]
            axis = self.axis_of_places
            return self.find_along(axis, wanted, "place", self.allowed_places())
        rows = [self.position(one, "place") for one in each]
        return np.isin(np.arange(self.n_positions), rows)

    def name_some(self, inside):
        """Name chosen places (n,), "sensors O1 and O2", or say how many they are."""
        names, n = self.coordinates[self.axis_of_places], np.count_nonzero(inside)
        if self.geometry is None:
            noun = AXES[self.axis_of_places].noun
        else:
            noun = self.geometry.noun
            names = self.geometry.columns().get(noun, names)
        if n <= _MOST_NAMED and names.dtype.kind == "U":
            return f"{plural(noun, n)} {enumerated(names[inside])}"
        if n > 1:
            return f"{n:,} of {counted(len(names), noun, ',')}"
        place = self.at(inside.argmax())
        return place[3:] if place.startswith("at vertex") else f"the {noun} {place}"

    def _vertices_of(self, wanted):
        """The names of the vertices of a label or a structure; anything else stays."""
        known, subject = self.coordinates["vertices"], self.sources["subject"]
        names = [wanted]
        if isinstance(wanted, str) and wanted in list(self.sources["structures"]):
            names = [name for name in known if name.rpartition(" ")[0] == wanted]
        elif hasattr(wanted, "hemi"):
            parts = [wanted.lh, wanted.rh] if wanted.hemi == "both" else [wanted]
            if None not in (subject, of := parts[0].subject) and of != subject:
                raise ValueError(f"{wanted!r} is of {of!r}; the map is of {subject!r}.")
            inside = {f"{each.hemi} {i}" for each in parts for i in each.vertices}
            names = [name for name in known if name in inside]
        if not names:
            raise ValueError(f"No vertex of the map is in {wanted!r}.")
        return names

    def _members(self, row, option):
        """The positions of a cluster by its row of a table."""
        positions, shape = (row.attrs.get(name) for name in ("positions", "shape"))
        single = getattr(row, "ndim", 0) == 1 and isinstance(row.name, Integral)
        if positions is None or not single or not 0 <= row.name < len(positions):
            raise ValueError(
                f"{option!r} is not a row of a table of clusters, or has lost its "
                "positions. Pass one unmodified row: table = result.clusters(), "
                f"{option}=table.loc[0]."
            )
        if tuple(shape) != self.shape:
            raise ValueError(
                f"{option!r} is a cluster in a map of the shape {tuple(shape)}, and "
                f"this map has the shape {self.shape}."
            )
        return positions[row.name]

    @property
    def _has_regions(self):
        return self.geometry is not None and self.geometry.kind == "regions"

    @property
    def _takes_images(self):
        return isinstance(self.geometry, VolumeSpace | SurfaceSpace)

    def _allowed(self, option, one=False):
        """What positions may be given by."""
        if one and self.geometry is not None:
            noun, columns = self.geometry.noun, self.geometry.columns()
            words = _ONE.get(self.geometry.kind, "")
            if noun in columns and columns[noun].dtype.kind == "U":
                names = quoted(columns[noun].tolist(), 20)
                words = f"the name of one {noun} ({names})"
            if self._has_regions:
                words = "the name or the number of a region"
            else:
                words += f"{', or ' * bool(words)}its number in result.positions"
            return f'"peak", or {words}' if option == "at" else words
        if one and not self.axes:
            return f"none, as this result has one position; leave {option} out"
        if one and [*self.axes] == ["times"]:
            return f'"peak", or {option}= a time in seconds, or (start, stop)'
        if one:
            each = ", ".join(AXES[name].asked for name in self.axes)
            return f'"peak", or {option}=({each}), each a number or (start, stop)'
        named = any(not AXES[name].unit for name in self.axes if name in AXES)
        allowed = {
            "None for the whole map": True,
            f"an array of bool of shape {self.shape}": True,
            "(from, to) in seconds": self._times(),
            "a name or a list of names": named or self._has_regions,
            "an image that is 0 outside of the set": self._takes_images,
            "a row of result.clusters()": True,
        }
        return "; ".join(words for words, holds in allowed.items() if holds)

    def pack(self):
        """Return plain values, which `unpack_places` understands."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


#: Up to so many places are named one by one.
_MOST_NAMED = 10

#: How one position is asked for, by the kind of space; others have numbers.
_ONE = {
    "volume": "(x, y, z) in mm",
    "surface": "(hemisphere, vertex)",
}


def _are_numbers(values, n):
    """Whether something is n numbers."""
    return (
        isinstance(values, list | tuple)
        and len(values) == n
        and all(isinstance(x, Real) and not isinstance(x, bool) for x in values)
    )


def _is_image(wanted):
    """Whether something is an image, or the path of one."""
    path = isinstance(wanted, str) and wanted.lower().endswith((".nii", ".nii.gz"))
    path = path or isinstance(wanted, PathLike)
    return path or hasattr(wanted, "dataobj") or hasattr(wanted, "mesh")


class Placed:
    """What has `places`, with the coordinates along an axis as attributes."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of positions along each axis of the map."""
        return self.places.shape

    def __getattr__(self, name: str) -> NDArray:
        """The coordinates along an axis of the map, e.g. `times`."""
        # Looked up in __dict__, because copy and pickle ask before there are fields.
        places = self.__dict__.get("places")
        if isinstance(places, Places) and name in places.coordinates:
            return places.coordinates[name]
        if isinstance(getattr(type(self), name, None), property):
            return getattr(type(self), name).fget(self)  # it says itself what is wrong
        raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")


def unpack_places(packed):
    """Make places of what their `pack` returned; they stay what they are."""
    if isinstance(packed, Places):
        return packed
    try:
        return Places(**packed)
    except TypeError as error:
        raise ValueError(f"These are no places of a map: {error}.") from error


def check_pairs(pairs, n, noun):
    """Refuse what are no pairs (2, n_pairs) of n neighbouring positions."""
    known = pairs.dtype.kind in "iu" and ((pairs >= 0) & (pairs < n)).all()
    if pairs.ndim != 2 or len(pairs) != 2 or not known:
        raise ValueError(
            f"adjacency must have shape (2, n_pairs) and hold indices of the {n} "
            f"{noun}; got shape {pairs.shape}, dtype {pairs.dtype}."
        )


def sensor_time_adjacency(pairs, n_sensors, n_times):
    """Which of (n_sensors, n_times) are neighbours, in space or next in time."""
    entries = np.ones(pairs.shape[1], bool), tuple(pairs)
    sensors = sparse.coo_array(entries, (n_sensors, n_sensors))
    times = sparse.eye_array(n_times, k=1, dtype=bool)
    lattice = sparse.kronsum(times, sensors)
    return sparse.csr_array(lattice + lattice.T)


def _space_difference(space, other):
    """Word how another space differs."""
    if space == other:
        return ""
    words = f"{other.describe()} instead of {space.describe()}"
    if space.kind == other.kind == "volume":
        if space.mask.shape != other.mask.shape:
            return f"{words} (grids of {other.mask.shape} and {space.mask.shape})"
        if not same_places(space.mask.shape, space.affine, other.affine):
            return f"{words} (grids with different affines)"
        if np.array_equal(space.mask, other.mask):
            return ""
        return f"{words} (another mask on the same grid)"
    if space.kind == other.kind == "regions":
        # Where a region lies may differ between subjects; what it is may not.
        pairs = (space.ids, other.ids), (space.names, other.names)
        if all(np.array_equal(*pair) for pair in pairs):
            return ""
        if only := {*map(str, space.names)} ^ {*map(str, other.names)}:
            return f"{words}, and not both have {quoted(sorted(only), 5)}"
    if space.kind == other.kind == "grayordinates" and _same_columns(space, other):
        return ""
    if space.kind == other.kind:
        return f"{words}, not the same ones"
    return words


def _same_columns(space, other):
    """Whether two spaces of CIFTI files differ only in where their cortex lies."""
    # The surfaces of subjects lie at other places, but their vertices correspond.
    free = {"coordinates": None, "affine": None}
    one, two = (each.pack() | free for each in (space, other))
    affines = [x.affine for x in (space, other) if x.affine is not None]
    near = len(affines) < 2 or same_places(space.shape, *affines)
    return near and same_content(one, two)


def _same(values, others):
    """Whether coordinates are the same, but for rounding."""
    if values is None or others is None:
        return values is others
    values, others = np.atleast_1d(values), np.atleast_1d(others)
    if values.shape != others.shape:
        return False
    if values.dtype.kind in "fiu" and others.dtype.kind in "fiu":
        return np.allclose(values, others, rtol=0, atol=_SAME)
    return np.array_equal(values, others)
