"""Sets of positions: the clusters of a map, and how many of a set have an effect.

Clusters are sets of connected positions: those that a correction by clusters tested, or
those that are significant under any other correction. Their table says from when to
when, where, how much, and p.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..inference.clusters import find_clusters
from ..inference.discoveries import Calibration, calibrate, n_true
from ..inference.null import Null, at_positions
from ..utils.axes import AXES
from ..utils.checks import counted, plural

#: The columns of every table, in their order, and those of true discoveries.
COLUMNS = ("from", "to", "places", "mass", "size", "p", "peak")
TRUE = ("n_true", "share_true")


def refuse_single(result):
    """Refuse a result of a single position."""
    if not result.axes:
        raise ValueError(
            "This result is of a single position, which has no clusters; use pvalues()."
        )


def cluster_table(
    places, scores, chance, strength, height, p, alpha, alternative, of_clusters, levels
):
    """The table of the clusters of maps (positions...) at some places, a row for each.

    They have their peaks in the scores, which have no effect at chance; masses are sums
    of the strength, NaN if it was not kept, which exceeds a height in clusters. Whether
    the p-values, NaN where nothing was tested, are `of_clusters` or count up to alpha
    at single positions. From the `levels` (T, positions) on, each test finds a
    position; None if not known.
    """
    import pandas as pd  # slow to import, and only tables need it

    low = np.full(p.shape, alternative == "less")
    if alternative == "two-sided":
        lost = np.isnan(strength)
        low = np.where(lost, scores - chance, strength) < 0
    if not of_clusters:
        inside = p <= alpha
    elif np.isnan(height):
        inside = p < 1
    else:
        inside = np.where(low, -strength, strength) > height
    # Clusters of high and of low scores stay apart, also where they touch.
    sides = np.stack([inside & ~low, inside & low])
    labels, sizes = find_clusters(sides, 0.5, places.adjacency())
    labels = labels.sum(axis=0).ravel()
    within = np.flatnonzero(labels)
    order = within[np.argsort(labels[within], kind="stable")]
    # The positions of each cluster, as indices in C order.
    ends = np.cumsum(sizes.astype(int))[:-1]
    sets = np.split(order, ends) if len(sizes) else []
    maps = [np.ravel(each) for each in (p, scores, low, strength)]
    columns = places.columns()
    rows = [_row(places, columns, each, of_clusters, *maps) for each in sets]
    # By p, and of equal ones by mass, or else by size.
    keys = [(r["p"], -np.nan_to_num(abs(r["mass"])), -r["size"]) for r in rows]
    order = sorted(range(len(rows)), key=keys.__getitem__)
    names, types = list(COLUMNS), {"mass": float, "size": int, "p": float}
    if levels is not None:
        numbers = np.repeat(np.arange(len(sets)), [len(members) for members in sets])
        of_all = np.concatenate([np.empty(0, int), *sets])
        bounds = n_true(levels[:, of_all], numbers).tolist()
        for row, bound in zip(rows, bounds, strict=True):
            row |= dict(zip(TRUE, (bound, bound / row["size"]), strict=True))
        names, types = [*names, *TRUE], types | {TRUE[0]: int, TRUE[1]: float}
    table = pd.DataFrame([rows[k] for k in order], columns=names)
    # By this a row may stand for its positions, see `true_discoveries`.
    table.attrs["shape"] = list(p.shape)
    table.attrs["positions"] = [sets[k].tolist() for k in order]
    return table.astype(types)  # without rows, too


def _row(places, columns, members, of_clusters, p, scores, low, strength):
    """The row of a cluster with these positions."""
    p, heights = p[members], scores[members]
    best = members[np.argmin(heights) if low[members[0]] else np.argmax(heights)]
    here = {name: values[members] for name, values in columns.items()}
    along = [values for name, values in here.items() if name in _ALONG]
    values = (
        _one_or_all([values.min().item() for values in along]),
        _one_or_all([values.max().item() for values in along]),
        _worded(places, here, len(members)),
        float(strength[members].sum()),
        len(members),
        # Of a cluster as a whole; of one that two tests found, also where one did.
        float(p.max() if of_clusters else p.min()),
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


# ------------------------------------------------------------------ true discoveries


#: At most at so many heights `discovery_map` looks for regions.
_N_HEIGHTS = 200


@dataclass(frozen=True, eq=False)
class TrueDiscoveries:
    """Lower bound on the number of positions of a set that have an effect.

    Parameters
    ----------
    n : int
        Number of positions in the set; those without scores are not counted.
    n_true : int
        Lower bound on the number of positions with an effect.
    alpha : float
        The bounds of all sets hold simultaneously, with a confidence of 1 - alpha.
    noun : str
        Name of a position.

    Examples
    --------
    >>> found = TrueDiscoveries(n=120, n_true=39)
    >>> found.share_true
    0.325
    >>> print(str(found).partition(" (95 %")[0])
    At least 39 of 120 positions (32 %) have an effect
    """

    n: int
    n_true: int
    alpha: float = 0.05
    noun: str = "position"

    @property
    def share_true(self) -> float:
        """Lower bound on the proportion of positions that have an effect."""
        return self.n_true / self.n

    def __repr__(self):
        """The sentence that may be said of the set."""
        what = f"{self.n:,} {plural(self.noun, self.n)}"
        confidence = (
            f"{100 * (1 - self.alpha):.3g} % confidence, simultaneous over all sets"
        )
        if self.n_true == 0:
            return f"Of {what} none is shown to have an effect ({confidence})."
        verb = "has" if self.n_true == 1 else "have"
        # Rounded down: no more is claimed than there is.
        share = f"{int(100 * self.share_true * (1 + 1e-12))} %"
        return (
            f"At least {self.n_true:,} of {what} ({share}) {verb} an effect "
            f"({confidence})."
        )


def levels_of(calibrations, alpha):
    """Return at which k each of T tests finds each position, (T, positions)."""
    level = alpha / len(calibrations)
    return np.stack([each.levels(level) for each in calibrations])


def of_sides(scores, alternative):
    """Maps of scores about 0 that are high where something is tested for."""
    if alternative == "two-sided":
        return [scores, -scores]
    return [-scores if alternative == "less" else scores]


def calibrate_map(tests, alternative):
    """The `Calibration` of a whole map (positions...) for each of its tests."""
    found = []
    for observed, null, mask in tests:
        observed = np.asarray(observed, dtype=float).ravel()
        where = np.flatnonzero(np.isfinite(observed))
        mask = np.zeros(len(observed), bool) if mask is None else np.ravel(mask)
        full = Null(
            observed[where],
            at_positions(null, where),
            alternative=alternative,
            exempt=mask[where],
        )
        made = calibrate(full)
        ranks = np.zeros(len(observed), dtype=made.ranks.dtype)
        ranks[where] = made.ranks
        found.append(Calibration(ranks, made.statistics))
    return found


def labels_above(heights, adjacency):
    """Yield the labels of connected positions (positions...) above each height."""
    finite = np.isfinite(heights)
    values = np.unique(heights[finite])
    if len(values) > _N_HEIGHTS:
        values = np.unique(
            np.quantile(heights[finite], np.linspace(0, 1, _N_HEIGHTS), method="lower")
        )
    step = np.searchsorted(values, heights, side="right").astype(float)
    for number in range(len(values)):
        labels, _ = find_clusters(step[np.newaxis], number + 0.5, adjacency)
        yield labels[0]
