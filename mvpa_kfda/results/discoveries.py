"""How many positions of a set have an effect, and what may stand for a set."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..inference.clusters import find_clusters
from ..inference.discoveries import Calibration, calibrate
from ..inference.null import Null, at_positions
from ..utils.checks import plural

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
