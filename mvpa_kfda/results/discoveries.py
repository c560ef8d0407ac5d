"""How many positions of a set have an effect, and what may stand for a set."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from numbers import Integral, Real
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data.images import masked
from ..data.space import RegionSpace, SurfaceSpace, VolumeSpace
from ..inference.clusters import find_clusters
from ..inference.corrections import not_whole
from ..inference.discoveries import Calibration, calibrate, n_true
from ..inference.null import (
    ALTERNATIVES,
    Alternative,
    Null,
    NullSummary,
    at_positions,
)
from ..utils.axes import AXES
from ..utils.checks import check_option, check_share, plural

#: Times that differ by less are the same, in seconds.
_SAME = 1e-6

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
        """Return the sentence that may be said of the set."""
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


class DiscoveriesMixin:
    """A map with bounds of how many positions have an effect; before `ScoreMap`.

    It has `calibrations`, of the tests that have to reject, and `_heights`.
    """

    def true_discoveries(
        self,
        where: Any = None,
        alpha: float = 0.05,
        *,
        metric: str | None = None,
        alternative: Alternative | None = None,
    ) -> TrueDiscoveries:
        r"""Return a lower bound on the number of positions with an effect in a set.

        The bounds of all sets of positions hold simultaneously, with confidence 1 -
        alpha. The set may therefore be chosen after looking at the scores, and several
        may be tried: a region, a time window, or a cluster, whose p-value only says
        that there is an effect somewhere in it [1]_ [2]_.

        Parameters
        ----------
        where : None, array, image, tuple, str, list of str, or Series
            The set. None: the whole map. A boolean array of the shape of the map. An
            image that is zero outside the set, on the grid or the meshes of the map, or
            its path. ``(from, to)`` in seconds, both included, for maps with times; for
            time generalization, both training and test times. A name or a list of names
            of sensors or atlas regions (or region numbers). A row of the table of
            `clusters`, ``table.loc[0]``.
        alpha : float
            1 minus the confidence, for all sets together.
        metric : str or None
            Name of the metric; None takes the first. Group results have a single
            metric.
        alternative : {"greater", "less", "two-sided"} or None
            Which scores are tested for. None: scores above those of permuted labels;
            for a group, its own alternative, the only one allowed.

        Returns
        -------
        found : TrueDiscoveries
            ``n`` positions in the set, of which at least ``n_true``, a proportion of
            ``share_true``, have an effect. It prints as a sentence.

        Raises
        ------
        TypeError, ValueError
            If `where` is not a set of positions of this map or has no scores, if
            `alpha` is not between 0 and 1, or if the scores of the permutations were
            not kept.

        Notes
        -----
        With :math:`r_0(j)` the rank of the observed score among all P + 1 scores of a
        position and :math:`\lambda` calibrated on the ranks of all permutations,

        .. math:: |S| - \min_k \left(\#\{j \in S: r_0(j) \ge \lambda k\} + k - 1\right)

        positions of the set S have an effect [1]_, see :doc:`/method/discoveries`. The
        bound does not say which positions these are, and a bound of 0 does not mean
        that there is no effect. Neighbours share trials and searchlights share voxels,
        so a position "with an effect" is one whose own decoding finds information.
        Bounds for small sets require many permutations: with P permutations and m
        positions in the map, the bound is 0 for sets of m / (P + 1) positions or fewer.

        References
        ----------
        .. [1] Blanchard, G., Neuvial, P., & Roquain, E. (2020). Post hoc confidence
           bounds on false positives using reference families. The Annals of Statistics,
           48(3), 1281-1303.
        .. [2] Andreella, A., Hemerik, J., Finos, L., Weeda, W., & Goeman, J. (2023).
           Permutation-based true discovery proportions for functional magnetic
           resonance imaging cluster analysis. Statistics in Medicine, 42(14),
           2311-2340.

        Examples
        --------
        >>> import numpy as np
        >>> from mvpa_kfda import decode_arrays
        >>> rng = np.random.default_rng(0)
        >>> y = rng.permutation(["face", "house"] * 30)
        >>> X = rng.normal(size=(60, 4, 6))  # trials, features, times
        >>> X[y == "house", :, 3:] += 2
        >>> result = decode_arrays(X, y, sfreq=10, n_permutations=99, random_state=0)
        >>> found = result.true_discoveries((0.2, 0.5))
        >>> found.n, found.n_true, found.share_true
        (4, 3, 0.75)
        """
        check_share("alpha", alpha)
        calibrations = self.calibrations(metric, alternative)
        inside = find_positions(self, where) & self._with_scores()
        if not inside.any():
            raise ValueError(
                "'where' selects no position with a score, so nothing can be counted."
            )
        levels = levels_of(calibrations, alpha)[:, inside.ravel()]
        n = int(np.count_nonzero(inside))
        return TrueDiscoveries(n, int(n_true(levels)[0]), float(alpha), self._noun())

    def discovery_map(
        self,
        share: float = 0.5,
        alpha: float = 0.05,
        *,
        metric: str | None = None,
        alternative: Alternative | None = None,
    ) -> NDArray:
        """Return the size of the largest region with enough effects around a position.

        Regions are connected positions above some threshold of the map; all thresholds
        are tried. Each position gets the size of the largest region that contains it
        and in which at least a proportion `share` of the positions have an effect. This
        holds for all regions simultaneously, see `true_discoveries`.

        Parameters
        ----------
        share : float
            The proportion of positions with an effect, above 0 and at most 1.
        alpha : float
            1 minus the confidence, for all regions together.
        metric : str or None
            Name of the metric, as in `true_discoveries`.
        alternative : {"greater", "less", "two-sided"} or None
            Which scores are tested for, as in `true_discoveries`.

        Returns
        -------
        sizes : array of int, shape (positions...)
            Number of positions of the region, 0 where there is none. For a brain map,
            ``result.geometry.to_img(sizes)`` makes an image.

        Raises
        ------
        ValueError
            If `share` or `alpha` is out of range, or as in `true_discoveries`.

        Notes
        -----
        Thresholds are the standardised scores, or the statistic of a group; if there
        are more than 200 distinct values, 200 of them, evenly spaced over the
        positions.
        """
        check_share("alpha", alpha)
        if share != 1:
            check_share("share", share)
        calibrations = self.calibrations(metric, alternative)
        levels = levels_of(calibrations, alpha)
        counted, adjacency = self._with_scores(), self.places.adjacency()
        sizes = np.zeros(self.shape, dtype=int)
        for heights in self._heights(metric, alternative):
            for labels in _labels_above(np.where(counted, heights, -np.inf), adjacency):
                inside = labels > 0
                bounds = n_true(levels[:, inside.ravel()], labels[inside] - 1)
                n = np.bincount(labels[inside] - 1)
                # A product that should be whole may exceed it by a rounding error.
                n[bounds < share * n * (1 - 1e-12)] = 0
                sizes[inside] = np.maximum(sizes[inside], n[labels[inside] - 1])
        return sizes

    def _with_scores(self):
        """Return where there are scores, bool, of the shape of the map."""
        return np.isfinite(np.asarray(self.metrics[self.scoring[0]], dtype=float))

    def _noun(self):
        """Return what a position of the map is called."""
        if self.places.geometry is not None:
            return self.places.geometry.noun
        return AXES["times"].point if [*self.axes] == ["times"] else "position"


class RankedMixin:
    """A subject's map whose permutations can be ranked; before `ScoreMap`."""

    def calibrations(
        self, metric: str | None = None, alternative: Alternative | None = None
    ) -> list[Calibration]:
        """Return what true-discovery bounds need, for each test that has to reject.

        Parameters
        ----------
        metric : str or None
            Name of the metric; None takes the first.
        alternative : {"greater", "less", "two-sided"} or None
            Which scores are tested for; None: large ones.

        Returns
        -------
        calibrations : list of Calibration
            Ranks of the observed scores, (positions,) in C order, and the statistics of
            all P + 1 rows.

        Raises
        ------
        ValueError
            If the scores of the permutations were not kept, see `true_discoveries`.
        """
        metric = self.check_metric(metric)
        alternative = "greater" if alternative is None else alternative
        check_option("alternative", alternative, ALTERNATIVES)
        tests = self.permuted(metric, "true discoveries")
        for each in tests:
            if isinstance(each.null, NullSummary):
                raise not_whole(each.null, "A bound of true discoveries needs")
        if (metric, alternative) not in self._calibrated:  # large maps take seconds
            self._calibrated[metric, alternative] = calibrate_map(tests, alternative)
        return self._calibrated[metric, alternative]

    @cached_property
    def _calibrated(self):
        """The calibrations that were asked for before."""
        return {}

    def _heights(self, metric, alternative):
        """Return the maps (positions...) in which regions are where they are high."""
        metric = self.check_metric(metric)
        alternative = "greater" if alternative is None else alternative
        z, _ = self._cluster_scores(metric, threshold=0.05, alternative=alternative)
        return of_sides(z, alternative)

    def _levels(self, metric, alternative, alpha):
        """Return from where on tests find positions; None without the whole nulls."""
        tests = self.kept_tests(metric)
        if any(isinstance(each.null, NullSummary) for each in tests):
            return None
        return levels_of(self.calibrations(metric, alternative), alpha)


def levels_of(calibrations, alpha):
    """Return at which k each of T tests finds each position, (T, positions)."""
    level = alpha / len(calibrations)
    return np.stack([each.levels(level) for each in calibrations])


def of_sides(scores, alternative):
    """Return maps of scores about 0 that are high where something is tested for."""
    if alternative == "two-sided":
        return [scores, -scores]
    return [-scores if alternative == "less" else scores]


def calibrate_map(tests, alternative):
    """Return the `Calibration` of a whole map (positions...) for each of its tests."""
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


# --------------------------------------------------------------- what stands for a set


def _labels_above(heights, adjacency):
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


def find_positions(result, where):
    """Return which positions of a map are meant (positions...), of bool."""
    if where is None:
        return np.ones(result.shape, dtype=bool)
    if isinstance(getattr(where, "attrs", None), dict):
        return _of_row(result, where)
    if isinstance(where, np.ndarray) and where.dtype == bool:
        return _of_array(result, where)
    if isinstance(where, str | list) and not _is_path(where):
        return _of_names(result, where)
    if isinstance(where, tuple):
        return _of_times(result, where)
    space = result.places.geometry
    if isinstance(space, RegionSpace) and isinstance(where, Integral):
        return _of_names(result, where)
    if isinstance(space, VolumeSpace | SurfaceSpace) and _is_image(where):
        return _of_image(space, where)
    raise TypeError(f"Invalid value for 'where': {where!r}. {_allowed(result)}")


def _allowed(result):
    """Say what a set of positions of a map may be given by."""
    allowed = ["None for the whole map", f"an array of bool of shape {result.shape}"]
    if _time_axes(result):
        allowed.append("(from, to) in seconds")
    if _named_axis(result) is not None:
        allowed.append("a name or a list of names")
    if isinstance(result.places.geometry, VolumeSpace | SurfaceSpace):
        allowed.append("an image that is 0 outside of the set")
    allowed.append("a row of result.clusters()")
    return f"Allowed: {'; '.join(allowed)}."


def _is_path(where):
    """Tell whether a text is the path of an image."""
    return isinstance(where, str) and where.lower().endswith((".nii", ".nii.gz"))


def _is_image(where):
    """Tell whether something is an image, or the path of one."""
    paths = _is_path(where) or isinstance(where, PathLike)
    return paths or hasattr(where, "dataobj") or hasattr(where, "mesh")


def _of_array(result, where):
    """Check an array of bool."""
    if where.shape != result.shape:
        raise ValueError(
            f"'where' has the shape {where.shape}, and the map {result.shape}. "
            f"{_allowed(result)}"
        )
    return where


def _of_row(result, row):
    """Return the positions of a cluster by its row of a table."""
    positions, shape = (row.attrs.get(name) for name in ("positions", "shape"))
    single = getattr(row, "ndim", 0) == 1 and isinstance(row.name, Integral)
    if positions is None or not single or not 0 <= row.name < len(positions):
        raise ValueError(
            "'where' is not a row of a table of clusters, or has lost its "
            "positions. Pass one unmodified row: table = result.clusters(), "
            "where=table.loc[0]."
        )
    if tuple(shape) != result.shape:
        raise ValueError(
            f"'where' is a cluster in a map of the shape {tuple(shape)}, and this map "
            f"has the shape {result.shape}."
        )
    inside = np.zeros(result.shape, dtype=bool)
    inside.flat[positions[row.name]] = True
    return inside


def _time_axes(result):
    """Return the numbers of the axes of times."""
    return [k for k, name in enumerate(result.axes) if _is_time(name)]


def _is_time(name):
    """Tell whether an axis is one of times."""
    return name in AXES and AXES[name].is_time


def _of_times(result, where):
    """Return the positions within a span of time."""
    axes = _time_axes(result)
    real = [isinstance(t, Real) and not isinstance(t, bool) for t in where]
    if not axes or real != [True, True] or not where[0] <= where[1]:
        raise ValueError(f"Invalid value for 'where': {where!r}. {_allowed(result)}")
    inside = np.ones(result.shape, dtype=bool)
    for axis in axes:
        times = result.along([*result.axes][axis])
        within = (times >= where[0] - _SAME) & (times <= where[1] + _SAME)
        if not within.any():
            raise ValueError(
                f"There is no time from {where[0]:g} to {where[1]:g} s; the times of "
                f"this map go from {times.min():g} to {times.max():g} s."
            )
        inside &= np.expand_dims(within, [k for k in range(inside.ndim) if k != axis])
    return inside


def _named_axis(result):
    """Return the axis whose positions have names; None without one."""
    if isinstance(result.places.geometry, RegionSpace):
        return 0
    names = [*result.axes]
    return names.index("ch_names") if "ch_names" in names else None


def _of_names(result, where):
    """Return the positions of sensors or regions."""
    axis, space = _named_axis(result), result.places.geometry
    wanted = where if isinstance(where, list) else [where]
    if axis is None or not wanted:
        raise ValueError(f"Invalid value for 'where': {where!r}. {_allowed(result)}")
    if space is not None:
        chosen = [space.find(name) for name in wanted]
    else:
        known = [str(name) for name in result.along("ch_names")]
        for name in wanted:
            check_option("where", name, known)
        chosen = [known.index(name) for name in wanted]
    inside = np.zeros(result.shape, dtype=bool)
    inside[(slice(None),) * axis + (chosen,)] = True
    return inside


def _of_image(space, where):
    """Return the positions at which an image is not zero."""
    return masked(space, where, "where").joined_mask[space.joined_mask]
