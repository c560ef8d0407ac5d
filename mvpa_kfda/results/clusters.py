"""The table of the clusters in a map: from when to when, where, how much, and p.

Clusters are sets of connected positions: those that a correction by clusters tested, or
those that are significant under any other correction.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..inference.clusters import find_clusters
from ..inference.discoveries import n_true
from ..utils.axes import AXES
from ..utils.checks import counted, plural

#: The columns of every table, in their order, and those of true discoveries.
COLUMNS = ("from", "to", "places", "mass", "size", "p", "peak")
TRUE = ("n_true", "share_true")


@dataclass(frozen=True, eq=False)
class ClusterMaps:
    """What a table of clusters is made of: maps, all of the same positions."""

    #: Where the positions are, `Places`.
    places: object
    #: The scores, in which clusters have their peaks, and where these have no effect.
    scores: np.ndarray
    chance: float
    #: What masses are sums of, NaN if it was not kept, and the height of clusters.
    strength: np.ndarray
    height: float
    #: The p-values, NaN where nothing was tested, and from which on they count.
    p: np.ndarray
    alpha: float
    alternative: str
    #: Whether p is of whole clusters, and not of single positions.
    of_clusters: bool
    #: From where on each test finds a position, (T, positions); None if not known.
    levels: np.ndarray | None = None

    @cached_property
    def low(self):
        """Where clusters are of low scores."""
        if self.alternative != "two-sided":
            return np.full(self.p.shape, self.alternative == "less")
        lost = np.isnan(self.strength)
        return np.where(lost, self.scores - self.chance, self.strength) < 0

    @cached_property
    def inside(self):
        """Where there are clusters."""
        if not self.of_clusters:
            return self.p <= self.alpha
        if np.isnan(self.height):
            return self.p < 1
        return np.where(self.low, -self.strength, self.strength) > self.height


def refuse_single(result):
    """Refuse a result of a single position."""
    if not result.axes:
        raise ValueError(
            "This result is of a single position, which has no clusters; use pvalues()."
        )


def cluster_table(maps):
    """Make the table of `ClusterMaps`, one row per cluster."""
    import pandas as pd  # slow to import, and only tables need it

    columns, sets = maps.places.columns(), _members(maps)
    rows = [_row(maps, columns, members) for members in sets]
    # By p, and of equal ones by mass, or else by size.
    keys = [(r["p"], -np.nan_to_num(abs(r["mass"])), -r["size"]) for r in rows]
    order = sorted(range(len(rows)), key=keys.__getitem__)
    names, types = list(COLUMNS), {"mass": float, "size": int, "p": float}
    if maps.levels is not None:
        numbers = np.repeat(np.arange(len(sets)), [len(members) for members in sets])
        inside = np.concatenate([np.empty(0, int), *sets])
        bounds = n_true(maps.levels[:, inside], numbers).tolist()
        for row, bound in zip(rows, bounds, strict=True):
            row |= dict(zip(TRUE, (bound, bound / row["size"]), strict=True))
        names, types = [*names, *TRUE], types | {TRUE[0]: int, TRUE[1]: float}
    table = pd.DataFrame([rows[k] for k in order], columns=names)
    # By this a row may stand for its positions, see `true_discoveries`.
    table.attrs["shape"] = list(maps.p.shape)
    table.attrs["positions"] = [sets[k].tolist() for k in order]
    return table.astype(types)  # without rows, too


def _members(maps):
    """The positions of each cluster, as indices in C order."""
    # Clusters of high and of low scores stay apart, also where they touch.
    sides = np.stack([maps.inside & ~maps.low, maps.inside & maps.low])
    labels, sizes = find_clusters(sides, 0.5, maps.places.adjacency())
    labels = labels.sum(axis=0).ravel()
    inside = np.flatnonzero(labels)
    order = inside[np.argsort(labels[inside], kind="stable")]
    return np.split(order, np.cumsum(sizes.astype(int))[:-1]) if len(sizes) else []


def _row(maps, columns, members):
    """The row of a cluster with these positions."""
    p, scores = np.ravel(maps.p)[members], np.ravel(maps.scores)[members]
    low = np.ravel(maps.low)[members[0]]
    best = members[np.argmin(scores) if low else np.argmax(scores)]
    here = {name: values[members] for name, values in columns.items()}
    along = [values for name, values in here.items() if name in _ALONG]
    values = (
        _one_or_all([values.min().item() for values in along]),
        _one_or_all([values.max().item() for values in along]),
        _worded(maps.places, here, len(members)),
        float(np.ravel(maps.strength)[members].sum()),
        len(members),
        # Of a cluster as a whole; of one that two tests found, also where one did.
        float(p.max() if maps.of_clusters else p.min()),
        _one_or_all([values[best].item() for values in columns.values()]),
    )
    return dict(zip(COLUMNS, values, strict=True))


#: Columns of places that go from somewhere to somewhere: in seconds, or in mm.
_ALONG = {axis.column for axis in AXES.values() if axis.is_time} | set("xyz")

#: Columns of names that are listed; of vertices there are too many.
_NAMED = (AXES["ch_names"].column, "region", "structure", "feature", "parcel")


def _one_or_all(values):
    """A single value, several as a tuple, and NaN for none."""
    return values[0] if len(values) == 1 else tuple(values) or np.nan


def _worded(places, here, size):
    """Word where a cluster is besides its times."""
    for name in _NAMED:
        if name in here and here[name].dtype.kind not in "iu":
            return ", ".join(map(str, dict.fromkeys(here[name].tolist())))
    if "vertices" in places.axes:
        return _worded_vertices(here[AXES["vertices"].column])
    if "freqs" in places.axes:
        axis = AXES["freqs"]
        low, high = (f"{end(here[axis.column]):.3g}" for end in (np.min, np.max))
        return axis.place.format(low if low == high else f"{low} to {high}")
    if places.geometry is not None:
        return counted(size, places.geometry.noun)
    noun = AXES["times"].noun
    return counted(size, noun if len(places.axes) == 1 else f"pair of {plural(noun)}")


def _worded_vertices(names):
    """Word how many vertices of which structures there are among names at times."""
    structures = [name.rpartition(" ")[0] for name in dict.fromkeys(names.tolist())]
    return ", ".join(
        f"{counted(structures.count(name), AXES['vertices'].noun)} of {name}"
        for name in dict.fromkeys(structures)
    )
