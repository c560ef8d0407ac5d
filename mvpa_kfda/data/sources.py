"""Source estimates of MNE-Python: read into one array, and made of maps again.

Features are vertices, those of a vector estimate the three orientations of every
vertex. The structures of a source space (hemispheres, volumes) have their vertices one
structure after the other, and are never mixed in a neighbourhood.
"""

from __future__ import annotations

import copy
import itertools
import os
import warnings
from collections import Counter
from collections.abc import Iterator, Sized
from dataclasses import dataclass, fields, replace
from functools import partial

import numpy as np
from scipy import sparse

from ..utils.advice import COMPLEX, advice, described
from ..utils.checks import check_positive, counted, quoted, read_file
from ..utils.fingerprints import note_input
from ..utils.memory import check_memory
from .neighbours import ball_members, nearest_members, surface_members, touching_from
from .space import SurfaceSpace

#: Class of MNE-Python -> the kind of its source space, and whether every vertex has
#: three values.
_CLASSES = {
    "SourceEstimate": ("surface", False),
    "VectorSourceEstimate": ("surface", True),
    "VolSourceEstimate": ("volume", False),
    "VolVectorSourceEstimate": ("volume", True),
    "MixedSourceEstimate": ("mixed", False),
    "MixedVectorSourceEstimate": ("mixed", True),
}
_ALLOWED = (
    "source estimates of MNE-Python, one for each trial: a list, or a generator such "
    "as mne.minimum_norm.apply_inverse_epochs(..., return_generator=True) returns"
)
_HEMISPHERES = ("lh", "rh")
#: How far times may be apart that are the same, in samples.
_SAME_TIME = 1e-3


@dataclass(frozen=True, eq=False)
class SourceForm:
    """What source estimates of all trials have in common, but for their times."""

    #: "surface", "volume" or "mixed", and whether every vertex has three values.
    kind: str
    vector: bool
    #: The numbers of the vertices of every structure.
    vertices: tuple
    subject: str | None
    #: The names of the structures.
    structures: tuple
    #: Where vertices are in mm, (n_vertices, 3), if that is known.
    points: np.ndarray | None = None

    @classmethod
    def of(cls, stc, name):
        """The form of a source estimate; refuse anything else."""
        import mne  # slow to import, and results need this module, too

        kind, vector = _CLASSES.get(type(stc).__name__, (None, None))
        if kind is None or type(stc) is not getattr(mne, type(stc).__name__):
            raise TypeError(f"{name} is a {described(stc)}. stcs must be {_ALLOWED}.")
        vertices = tuple(np.array(each, np.int64) for each in stc.vertices)
        names = [] if kind == "volume" else [*_HEMISPHERES]
        n = len(vertices) - len(names)
        names += ["volume"] if n == 1 else [f"volume {i + 1}" for i in range(n)]
        return cls(kind, vector, vertices, stc.subject, tuple(names))

    @property
    def n_vertices(self):
        """The number of vertices of all structures."""
        return sum(map(len, self.vertices))

    @property
    def n_values(self):
        """How many values a vertex has."""
        return 3 if self.vector else 1

    def labels(self):
        """The names of all vertices, such as "lh 1234", (n_vertices,)."""
        pairs = zip(self.structures, self.vertices, strict=True)
        names = [f"{name} {number}" for name, numbers in pairs for number in numbers]
        return np.array(names, dtype=str)

    def class_name(self, vector):
        """The name of the class in MNE-Python of estimates in this space."""
        return next(k for k, v in _CLASSES.items() if v == (self.kind, vector))

    def make(self, data, tmin, tstep, vector=False):
        """Values (n_vertices, n_times) as a source estimate of this kind.

        With three values per vertex, (3 n_vertices, n_times), one with orientations.
        """
        import mne

        if vector:
            data = data.reshape(self.n_vertices, 3, -1)
        vertices = [np.array(each) for each in self.vertices]
        cls = getattr(mne, self.class_name(bool(vector)))
        return cls(data, vertices, tmin, tstep, self.subject)

    def take(self, chosen):
        """The form of chosen vertices (n_vertices,), of bool."""
        parts = np.split(chosen, np.cumsum([*map(len, self.vertices)])[:-1])
        pairs = zip(self.vertices, parts, strict=True)
        points = None if self.points is None else self.points[chosen]
        return replace(self, vertices=tuple(v[x] for v, x in pairs), points=points)

    def pack(self):
        """Plain values, which `unpack_form` understands."""
        return vars(self) | {"structures": np.array(self.structures, dtype=str)}


def unpack_form(packed):
    """The form of what its `pack` returned, among other things."""
    values = {field.name: packed[field.name] for field in fields(SourceForm)}
    return SourceForm(**values | {"structures": tuple(map(str, values["structures"]))})


# ----------------------------------------------------------------------------- reading


def open_sources(stcs, y):
    """The form, times and number of source estimates, which are read one by one.

    The first one is read at once, so that these are known before the others are
    computed.

    Returns
    -------
    form : SourceForm
        What the estimates are of.
    times : ndarray, shape (n_times,)
        Their times in seconds.
    tstep : float
        The time from one sample to the next in seconds.
    n_trials : int
        The number of trials.
    read : callable
        Returns the data of all trials, (n_times, n_trials, n_features). Single
        precision if all of them are, else double. They are put into one array as they
        come, and nothing else is kept of them.
    """
    no_list = isinstance(stcs, str | os.PathLike | np.ndarray)
    if no_list or sparse.issparse(stcs) or not hasattr(stcs, "__iter__"):
        what = advice(stcs) if isinstance(stcs, np.ndarray) else ""
        given = f"stcs is a {described(stcs)}"
        raise TypeError(f"{given}, but must be {_ALLOWED}.{what}")
    known = isinstance(stcs, Sized) and not isinstance(stcs, Iterator)
    try:
        n_trials, rest = len(stcs if known else y), iter(stcs)
    except TypeError:
        what = f"one label for each trial; got {described(y)}"
        raise TypeError(f"y must be an array or list with {what}.") from None
    if (first := next(rest, None)) is None:
        raise ValueError(f"stcs is empty: no trial. It must be {_ALLOWED}.")
    form = SourceForm.of(first, "stcs[0]")
    times, tstep = np.array(first.times), float(first.tstep)
    if not form.n_vertices or not len(times):
        raise ValueError("stcs[0] is empty: it has no vertices or no times.")
    stcs = itertools.chain([first], rest)
    shape = len(times), n_trials, form.n_vertices * form.n_values

    def read():
        data = None
        for i, stc in enumerate(stcs):
            if i == n_trials:
                raise ValueError(
                    f"stcs holds more source estimates than the {i} labels of y: one "
                    "label is needed for each."
                )
            values = _checked_values(i, stc, form, times, tstep)
            dtype = np.result_type(values.dtype, np.float32)
            if data is None:
                check_memory(
                    int(np.prod(shape, dtype=float) * dtype.itemsize),
                    "The data of {1} trials, {2} features and {0} times".format(*shape),
                    "fewer times (crop the epochs, or decimate them) or fewer vertices",
                )
                data = np.empty(shape, dtype)
            elif np.result_type(data, dtype) != data.dtype:
                data = data.astype(np.float64)
            data[:, i] = values.reshape(shape[2], -1).T
            stc = values = None  # or two trials would stay
        if i + 1 < n_trials:
            raise ValueError(
                f"stcs ended after {counted(i + 1, 'source estimate')}, and y has "
                f"{n_trials} labels: one source estimate is needed for each."
            )
        note_input("data", np.moveaxis(data, 1, 0))
        return data

    return form, times, tstep, n_trials, read


def _checked_values(i, stc, first, times, step):
    """The values of a source estimate that is like the first, real and finite."""
    form, n, near = SourceForm.of(stc, f"stcs[{i}]"), len(stc.times), _SAME_TIME * step
    kinds = (each.class_name(each.vector) for each in (form, first))
    pairs = zip(first.structures, form.vertices, first.vertices, strict=False)
    other = [name for name, here, there in pairs if not np.array_equal(here, there)]
    tstep = stc.tstep if abs(stc.tstep - step) * n > near else step
    tmin = stc.tmin if abs(stc.tmin - times[0]) > near else times[0]
    for words, value, expected in (
        ("the kind {} instead of {}", *kinds),
        ("the subject {!r} instead of {!r}", form.subject, first.subject),
        ("{} vertices instead of {}", form.n_vertices, first.n_vertices),
        ("other vertices of {} than", " and ".join(other), ""),
        ("{} instead of {}", counted(n, "time"), counted(len(times), "time")),
        ("tstep={:g} s instead of {:g} s", tstep, step),
        ("tmin={:g} s instead of {:g} s", tmin, times[0]),
    ):
        if value != expected:
            raise ValueError(
                f"stcs[{i}] has {words.format(value, expected)} (stcs[0]). All trials "
                "need the same kind of source estimate, with the same vertices, times "
                "and subject."
            )
    # Of one that holds a kernel, MNE-Python would keep the product in it.
    values = np.asarray(copy.copy(stc).data)
    if np.iscomplexobj(values):
        raise ValueError(
            f"stcs[{i}] has complex data; real numbers are needed. For amplitude, pass "
            "abs(stc) of each; else z = np.stack([stc.data for stc in stcs]) to "
            f"decode_arrays, with tmin= and sfreq=. {COMPLEX}"
        )
    if not (finite := np.isfinite(values)).all():
        vertex, *_, time = np.argwhere(~finite)[0]
        raise ValueError(
            f"stcs[{i}] has NaN or infinite values, the first at vertex "
            f"{first.labels()[vertex]}, {times[time]:.3f} s. Drop this trial, or find "
            "out what the inverse solution was given."
        )
    return values


def rescale(data, chosen=None):
    """Divide data (n_times, n, p) in place by their standard deviation.

    That of the chosen trials (n,), or of all of them.
    """
    rows = slice(None) if chosen is None else chosen
    mean = np.mean([sample[rows].mean(dtype=np.float64) for sample in data])
    squares = [np.square(sample[rows] - mean).mean(dtype=float) for sample in data]
    data /= np.sqrt(np.mean(squares)) or 1.0


# ---------------------------------------------------------------------- neighbourhoods


def find_source_neighbours(form, src, radius):
    """The neighbourhoods of all vertices in a source space, by a radius in mm.

    On a cortex paths run along the mesh, also through vertices that are not used; in
    volumes neighbourhoods are spheres.

    Returns
    -------
    form : SourceForm
        The form, with the names of the structures and the places of the vertices.
    members : sparse array of bool, shape (n_vertices, n_vertices)
        The vertices within the radius of every vertex.
    pairs : array, shape (2, n_pairs)
        Neighbouring vertices, each pair once.
    """
    radius = check_positive("radius", radius, " The radius is in mm.")
    src = _read_source_space(src)
    _check_source_space(form, src)
    names, members, graphs, points = [], [], [], []
    for name, space, vertices in zip(form.structures, src, form.vertices, strict=True):
        given = space.get("seg_name") if space["type"] != "surf" else None
        names.append(str(given or name))  # volumes may have names
        places = 1e3 * space["rr"]
        points.append(places[vertices])
        if len(vertices):
            members.append(_members(name, space, places, vertices, radius))
            graphs.append(_adjacency(name, space, vertices))
    form = replace(form, structures=tuple(names), points=np.concatenate(points))
    near = sparse.csr_array(sparse.block_diag(members, format="csr"))
    near.sort_indices()
    return form, near, touching_from(sparse.block_diag(graphs, format="csr"))


def _read_source_space(src):
    """Source spaces, given as such or by the path of a file."""
    import mne

    if isinstance(src, str | os.PathLike):
        read = partial(mne.read_source_spaces, verbose=False)
        return read_file(src, "src", read, "source space")
    if not isinstance(src, mne.SourceSpaces):
        of_operator = isinstance(src, dict) and "src" in src
        hint = " Pass the source space of a forward or inverse operator, ['src']."
        raise TypeError(
            f"Invalid value for 'src': {described(src)}. Allowed: mne.SourceSpaces, "
            f"or the path of a file with them.{hint * of_operator}"
        )
    return src


def _check_source_space(form, src):
    """Refuse a source space of other vertices or another subject."""
    expected = ["surface" if x in _HEMISPHERES else "volume" for x in form.structures]
    found = ["surface" if space["type"] == "surf" else "volume" for space in src]
    mend = "Pass the source space that they were computed with, inverse['src']."
    if found != expected:
        counts = (Counter(each).items() for each in (found, expected))
        here, there = (" and ".join(counted(n, x) for x, n in of) for of in counts)
        what = f"src has {here}, but the source estimates are of {there}"
        raise ValueError(f"{what}. {mend}")
    subject = src[0].get("subject_his_id")
    if None not in (form.subject, subject) and form.subject != subject:
        raise ValueError(
            f"src is of subject {subject!r}, but the source estimates are of, or were "
            f"morphed to, {form.subject!r}. Pass the source space of that subject."
        )
    for name, vertices, space in zip(form.structures, form.vertices, src, strict=True):
        if len(unknown := np.setdiff1d(vertices, space["vertno"])):
            raise ValueError(
                f"{len(unknown)} of the {len(vertices)} vertices of {name} are not in "
                f"use in src, e.g. {quoted(unknown[:3].tolist())}. {mend}"
            )


def _members(name, space, places, vertices, radius):
    """The vertices within a radius of each other, (n, n), of one structure."""
    if space["type"] != "surf":
        return ball_members(places[vertices], radius)
    if len(space["tris"]) == 0:
        raise ValueError(
            f"src has no triangles of {name}, along which distances are measured. Pass "
            "the one that mne.setup_source_space returned, or mne.read_source_spaces."
        )
    used = np.zeros(len(places), dtype=bool)
    used[vertices] = True
    # A single sheet; by which name does not matter.
    mesh = SurfaceSpace({"left": places}, {"left": space["tris"]}, {"left": used})
    return surface_members(mesh, mesh, radius)


def _adjacency(name, space, vertices):
    """Which vertices of one structure touch, as MNE-Python finds it."""
    import mne

    if space["type"] == "discrete":  # of which MNE-Python knows no neighbours
        return nearest_members(1e3 * space["rr"][vertices])
    if space["type"] == "surf" and space["use_tris"] is None:
        if len(space["vertno"]) < len(space["rr"]):
            raise ValueError(
                f"The vertices of {name} in src are not joined by triangles, as "
                "clusters need. Make src with spacing 'ico5', 'oct6' or 'all'."
            )
        space = {**space, "use_tris": space["tris"]}
    with warnings.catch_warnings(), mne.use_log_level("ERROR"):
        warnings.filterwarnings("ignore", ".*adjacency will have holes")
        graph = sparse.csr_array(mne.spatial_src_adjacency([space]))
    at = np.searchsorted(space["vertno"], vertices)
    return graph[at][:, at]
