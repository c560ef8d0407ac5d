"""What maps that were tested have in common: those of groups, and comparisons."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .._checks import check_option
from .._inference.corrections import ADJUSTMENTS, adjust, check_correction
from .base import plain
from .places import Places, unpack_places
from .saved import Saved
from .volume_images import image_of_p


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class TestedMap(Saved):
    """A map of scores and of their p-values, which no longer needs a null.

    A subclass has the `scores`, says in `metrics` what else it has a map of, and in
    `_description` in a few words what they were computed from.
    """

    #: What gives this result, in error messages.
    made_by: ClassVar[str]

    #: Whether there are p-values: always, be it of permutations or of a distribution.
    _has_p: ClassVar[bool] = True

    #: pytest takes any class of this name for tests.
    __test__: ClassVar[bool] = False

    metric: str
    method: str
    correction: tuple
    alternative: str
    alpha: float
    places: Places
    chance: float
    score_chance: float
    statistic: np.ndarray
    p_maps: dict
    observed_max: float
    null_max: np.ndarray
    n_permutations: int
    parameters: dict
    versions: dict

    def __post_init__(self):
        """Normalize the values, which may come from a file, and check the shapes."""
        put = object.__setattr__  # the one way to set a field of a frozen object
        if isinstance(self.places, dict):
            put(self, "places", unpack_places(self.places))
        put(self, "correction", tuple(self.correction))
        for name in ("chance", "score_chance", "alpha", "observed_max"):
            put(self, name, float(getattr(self, name)))
        put(self, "n_permutations", int(self.n_permutations))
        put(self, "null_max", np.asarray(self.null_max))
        put(self, "statistic", np.asarray(self.statistic))
        put(self, "p_maps", {k: np.asarray(p) for k, p in self.p_maps.items()})
        wrong = [name for name, p in self.p_maps.items() if p.shape != self.shape]
        if "none" not in self.p_maps or wrong or self.statistic.shape != self.shape:
            raise ValueError(
                f"A {type(self).__name__} with positions {self.shape} needs p-values "
                "and a statistic of that shape, the uncorrected p-values among them; "
                f"got {list(self.p_maps)}, of other shapes: {wrong}."
            )

    def _content(self):
        """Map the names of the fields to plain values."""
        return super()._content() | {"places": self.places.pack()}

    def __getattr__(self, name):
        """Return the coordinates along an axis of the map, e.g. `times`."""
        # Looked up in __dict__, because copy and pickle ask before there are fields.
        places = self.__dict__.get("places")
        if isinstance(places, Places) and name in places.coordinates:
            return places.coordinates[name]
        if isinstance(getattr(type(self), name, None), property):
            return getattr(type(self), name).fget(self)  # it says itself what is wrong
        raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")

    @property
    def shape(self):
        """Number of positions along every axis of the map, a tuple."""
        return self.places.shape

    @property
    def axes(self):
        """Fields of the coordinates, and what their columns of a table are called."""
        return self.places.axes

    @property
    def metrics(self):
        """All maps by name: the scores first, then the statistic."""
        return {self.metric: self.scores, "statistic": self.statistic}

    @property
    def chances(self):
        """Where the colors of each map have their middle, NaN where it has none."""
        middle = np.nan if self._skewed else 0.0
        return {self.metric: self.chance, "statistic": middle}

    #: Whether the statistic has no value of its own for "no effect".
    _skewed: ClassVar[bool] = False

    @property
    def scoring(self):
        """Names of the maps."""
        return list(self.metrics)

    @property
    def counted(self):
        """Where there are scores, bool, of the shape of the map."""
        return ~np.isnan(self.p_maps["none"])

    @property
    def decoded(self):
        """Where there are scores; figures of brains ask for it by this name."""
        return self.counted

    @property
    def geometry(self):
        """Where the positions are in a brain; None for maps of epochs."""
        return self.places.geometry

    @property
    def info(self):
        """The channels, an `mne.Info`; None where none were kept."""
        return self.places.info

    @property
    def adjacency(self):
        """Pairs of neighbouring sensors or positions of a brain, (2, n_pairs)."""
        return self.places.pairs

    def pvalues(self, correction=None):
        """Return p-values.

        Parameters
        ----------
        correction : str or None
            Correction for testing many positions, see `mvpa_kfda.inference`. None
            takes the one that was asked for. "none", "bonferroni", "fdr" and "fdr-by"
            are always there; the others if they were asked for.

        Returns
        -------
        p : float or array, of the shape of the map
            NaN where there are no scores.

        Raises
        ------
        ValueError
            If the correction is not known, or if it was not asked for.
        """
        return plain(self._corrected(self._correction(correction)))

    def _correction(self, name):
        """Return the name of a correction, the default one if None."""
        if name is None:
            return self.correction[0]
        if isinstance(name, str):  # large letters and underscores, as when asked for
            name = name.lower().replace("_", "-")
        return name if name in self.p_maps else check_correction(name)

    def _corrected(self, name):
        """Return p-values by the name of the correction."""
        if name in self.p_maps:
            return self.p_maps[name].copy()
        if name in ADJUSTMENTS:
            return self._adjusted(name, self.p_maps["none"])
        kept = ", ".join(map(repr, self.p_maps))
        raise ValueError(
            f"The correction {name!r} was not asked for, and the permutations are not "
            f"kept. Kept are: {kept}. Run {self.made_by} again with "
            f"correction={[*self.correction, name]}."
        )

    def _adjusted(self, name, p):
        """Return p-values that a correction computes from uncorrected ones."""
        p, counted = p.copy(), self.counted
        p[counted] = adjust(p[counted], name)
        return p

    def _p_for_plot(self, correction, metric):
        """Return the p-values that figures mark; all maps have the same ones."""
        return np.asarray(self.pvalues(correction))

    def _is_scalar(self, name):
        """Tell maps with one number per position; all are."""
        return name in self.metrics

    def _scalar_metric(self, metric):
        """Return the name of a map, the scores if None."""
        return check_option(
            "metric", self.metric if metric is None else metric, self.scoring
        )

    def to_dataframe(self, corrections=None):
        """Make a table with one row per position.

        Parameters
        ----------
        corrections : str, sequence of str, or None
            Corrections to add as columns ``p_<correction>``. None takes those that
            were asked for. A result with a single position has none.

        Returns
        -------
        table : pandas.DataFrame
            The position, every map, ``p`` (uncorrected) and one column per correction.
        """
        import pandas as pd  # slow to import, and only tables need it

        if corrections is None:
            corrections = self.correction
        elif isinstance(corrections, str):
            corrections = [corrections]
        names = [self._correction(name) for name in corrections]
        table = self.places.columns() | self._table() | self._p_columns("none", "p")
        for name in names if self.axes else ():
            if name != "none":
                table |= self._p_columns(name, f"p_{name.replace('-', '_')}")
        return pd.DataFrame({name: np.ravel(v) for name, v in table.items()})

    def _table(self):
        """Return the columns of a table with all maps."""
        return self.metrics

    def _p_columns(self, correction, column):
        """Return the columns of a table with p-values under a correction."""
        return {column: self.pvalues(correction)}

    def to_img(self, name=None, *, correction=None, **options):
        """Make an image of one of the maps, or of p-values.

        Parameters
        ----------
        name : str or None
            What the image shows. None: the scores. A name of `scoring`: that map.
            "p": p-values. "neglog10p": their -log10. "z": the normal deviates that p
            is the upper tail of.
        correction : str or None
            Correction of the p-values, as in `pvalues`.
        **options
            What else `pvalues` takes: of a prevalence test its `null`.

        Returns
        -------
        img : nibabel.Nifti1Image or nilearn.surface.SurfaceImage
            On the grid or the meshes of the maps: 0 outside of the mask (1 for "p"),
            and NaN where it has no scores.

        Raises
        ------
        ValueError
            If there is no such map, if the positions have no place in a brain, or as
            in `pvalues`.
        """
        if self.geometry is None:
            raise ValueError(
                f"There is no image of {self.places.describe()}. Images are for "
                "results of searchlights and regions; use to_dataframe() or plot()."
            )
        name = self.metric if name is None else name
        if name in self.metrics:
            return self.geometry.to_img(self.metrics[name])
        check_option("name", name, (*self.scoring, "p", "neglog10p", "z"))
        p = np.asarray(self.pvalues(correction, **options))
        return image_of_p(self.geometry, name, p, self.n_permutations)

    def __repr__(self):
        """Describe the result in one line."""
        parts = [self._worded_best(), self.places.describe(), *self._description()]
        return f"<{type(self).__name__}: {' | '.join(parts)}>"

    def _worded_best(self):
        """Word the highest score."""
        scores = np.asarray(self.scores)
        best = np.nanmax(scores) if np.isfinite(scores).any() else np.nan
        peak = "peak " if self.axes else ""
        return f"{self.metric} {peak}{best:.3f}"

    def _worded_difference(self, what):
        """Word the largest difference, of either sign."""
        scores = np.ravel(self.scores)
        best = scores[np.nanargmax(np.abs(scores))]
        return f"{what} {'peak ' if self.axes else ''}{best:+.3f}"
