"""What the result objects of all analyses share.

A `Result` can be saved. Most results are a `ScoreMap`: scores at every position of a
map, with p-values, a table and figures. A `SubjectResult` has the scores of permuted
labels for that, with a `SummariesMixin` perhaps only a summary of them; what was tested
over subjects or between results has p-values alone, see `mvpa_kfda.results.group`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, fields
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..inference.corrections import (
    CORRECTIONS,
    CorrectionName,
    CorrectionNames,
    KeptTest,
    check_correction,
    cluster_scores,
    correct,
    known_corrections,
    not_whole,
    nulls_of,
    smallest_p_value,
)
from ..inference.discoveries import Calibration, n_true
from ..inference.null import ALTERNATIVES, Alternative, NullSummary, centre_of
from ..metrics.scores import is_of_one_class, mean_of_permuted
from ..utils.axes import AXES
from ..utils.checks import capital, check_option, check_share, counted
from ..utils.files import refuse_image, same_content, write_result_file
from ..utils.fingerprints import PROJECTIONS, checksum_of
from ..utils.rounding import rounded
from ..viz.notebook import make_html
from ..viz.null import largest_scores, plot_map_null
from ..viz.style import make_figure
from .clusters import (
    TrueDiscoveries,
    calibrate_map,
    cluster_table,
    labels_above,
    levels_of,
    of_sides,
    refuse_single,
)
from .fields import CONVERTED, figure_method, plain, plain_values, record
from .finding import Finding
from .places import Places
from .procedure import OptionsMixin
from .selection import select
from .tables import make_dataset

if TYPE_CHECKING:
    from pandas import DataFrame
    from typing_extensions import Self
    from xarray import Dataset

    from ..viz.style import Figure

#: What the scores and p-values of a result are: an array, or at one position a float.
Scores = TypeVar("Scores")

#: Significance level of the results of a subject; those of groups have their own.
ALPHA = 0.05

#: From so many scores of permutations on p-values take longer than a glance.
_MANY_SCORES = 5_000_000


@record
class Result:
    """A result that can be saved: a frozen object whose fields are plain values.

    Parameters
    ----------
    warnings : tuple of str
        Warnings of the call that made the result, in order of appearance.
    """

    warnings: tuple[str, ...] = ()

    #: Whether there are p-values.
    has_p: ClassVar[bool] = False
    #: Whether the scores are differences, and whether there are those of subjects.
    is_difference: ClassVar[bool] = False
    has_subjects: ClassVar[bool] = False
    #: Whether the prevalence of an effect in the population was tested.
    is_prevalence: ClassVar[bool] = False
    #: What the null hypothesis is called, where there are several.
    null_words: ClassVar[str] = ""
    #: Whether there are activation patterns, and whether penalties were tuned.
    has_patterns: ClassVar[bool] = False
    is_tuned: ClassVar[bool] = False
    #: Whether there are predictions of single trials, and which methods draw them.
    has_predictions: ClassVar[bool] = False
    trial_figures: ClassVar[tuple[str, ...]] = ()
    #: Where the positions are in a brain; None of all other results.
    geometry: ClassVar[Any] = None

    def _convert(self, convert, *names):
        """Convert the values of some fields."""
        for name in names:
            # The one way to set a field of a frozen object.
            object.__setattr__(self, name, convert(getattr(self, name)))

    def save(self, path: str | PathLike[str], overwrite: bool = False) -> None:
        """Save the result to an HDF5 file that `load_result` reads.

        Parameters
        ----------
        path : str or path-like
            The file to write; ``.h5`` is the usual extension.
        overwrite : bool
            Overwrite an existing file.

        Raises
        ------
        FileExistsError
            If the file exists and `overwrite` is false.
        FileNotFoundError
            If the folder of the file does not exist.
        ValueError
            If the file has the extension of an image: .nii, .nii.gz or .gii.
        """
        images = "for an image use result.to_img(...).to_filename(path)"
        refuse_image(path, images if hasattr(self, "to_img") else "")
        write_result_file(
            path, type(self).__name__, self._content(), overwrite=overwrite
        )

    def _content(self):
        """Map the names of the fields to their values."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def to_xarray(self, **options: Any) -> Dataset:
        """Return a dataset with named dimensions (requires xarray).

        Parameters
        ----------
        **options
            Options of `to_dataframe`, such as ``corrections``.

        Returns
        -------
        dataset : xarray.Dataset
            The columns of `to_dataframe` as maps, with the dimensions ``time``,
            ``freq``, ``sensor``, ``train_time`` and ``test_time``, ``voxel``,
            ``vertex``, ``region`` or ``feature``, and coordinates in s, Hz and mm. The
            attribute ``chance`` of a map is its chance level, and ``permuted_mean`` the
            mean of permuted labels, if it differs. Also included, if they
            were kept: ``confusion_matrix``, ``predicted``, and scores of each ``fold``,
            ``repeat`` and ``subject``; not the permutations' scores. Attributes of the
            dataset, such as ``parameter_reg`` and ``version_numpy``, are numbers and
            text, so that ``dataset.to_netcdf("scores.nc")`` works.

        Raises
        ------
        ImportError
            If xarray is not installed.
        TypeError, ValueError
            As `to_dataframe`.

        Examples
        --------
        >>> import numpy as np
        >>> from mvpa_kfda import decode_arrays
        >>> rng = np.random.default_rng(0)
        >>> X, y = rng.normal(size=(40, 5, 3)), rng.permutation(["cat", "dog"] * 20)
        >>> result = decode_arrays(X, y, sfreq=10)
        >>> dataset = result.to_xarray()  # doctest: +SKIP
        >>> dataset.accuracy.sel(time=0.1).item()  # doctest: +SKIP
        """
        return make_dataset(self, self.to_dataframe(**options))

    def figure(self, **options: Any) -> Figure:
        """Draw the figure of `plot` without registering it with pyplot.

        It need not be closed, and notebooks show it once. It can be added to a report:
        ``mne.Report().add_figure(result.figure(), title="Decoding")``.

        Parameters
        ----------
        **options
            Options of `plot`, except ``ax`` and ``show``.

        Returns
        -------
        figure : matplotlib Figure
            Save it with ``figure.savefig("scores.png")``.

        Raises
        ------
        TypeError
            If an option is not one of `plot`.
        ValueError
            As `plot`.
        """
        return make_figure(self, **options)

    def _repr_html_(self):
        """Describe the result in a notebook, with a small figure if that is fast."""
        return make_html(self, self._facts(), self._is_small)

    #: Whether p-values and figures take no more than a glance.
    _is_small: ClassVar[bool] = True

    def __eq__(self, other):
        """Whether the other result has the same type and the same fields."""
        if type(self) is not type(other):
            return NotImplemented
        # Results are equal however they were made.
        free = {"options": None, "inputs": None}
        return same_content(*(each._content() | free for each in (self, other)))


@record
class ScoreMap(Result):
    """Scores at each position along zero or more axes, and their p-values.

    A subclass has its maps in `metrics`, their chance levels in `chances`, and in
    `axes` the names of its coordinates. Tables and figures are made with its
    `pvalues`, and with what follows here.
    """

    #: Coordinates -> their column in a table, in the order of the map's dimensions.
    axes: ClassVar[dict[str, str]] = {}

    has_p: ClassVar[bool] = True

    def __post_init__(self):
        """Normalize the values, which may come from a file."""
        for each in fields(self):
            if each.type in CONVERTED:
                self._convert(CONVERTED[each.type], each.name)

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of positions along each axis of the map, a tuple."""
        return tuple(len(self.along(name)) for name in self.axes)

    @property
    def geometry(self) -> Any:
        """The geometry of positions in a brain; None for maps of epochs.

        An object with `n_positions`, `columns()` (of a table) and `to_img(values)`,
        which makes an image of one value per position. It also has `mask` and `affine`
        for volumes, `coordinates`, `faces` and `mask` by hemisphere for surfaces, and
        `axis()` for CIFTI files.
        """
        return self.places.geometry

    def along(self, axis: str) -> NDArray:
        """Return the coordinates along an axis of the map.

        Parameters
        ----------
        axis : str
            One of `axes`, e.g. "times".

        Returns
        -------
        coordinates : array, shape (n_along_axis,)
            Numbers or names.

        Raises
        ------
        ValueError
            If the map has no such axis.
        """
        none = () if self.axes else ("none, as there is a single position",)
        return getattr(self, check_option("axis", axis, list(self.axes), none))

    def null_of(self, metric: str) -> NDArray:
        """Return the scores under permuted labels, if all of them were kept.

        Parameters
        ----------
        metric : str
            Name of the metric.

        Returns
        -------
        null : array, shape (P, positions...)
            P is 0 if there are none.
        """
        return np.empty((0, *self.shape))

    @property
    def scoring(self) -> list[str]:
        """Names of the metrics, in the order of `scoring`."""
        return list(self.metrics)

    def smallest_p(
        self, correction: str = "none", n_positions: int = 1, metric: str | None = None
    ) -> float:
        """Return the smallest p-value attainable with the permutations.

        Parameters
        ----------
        correction : str
            Correction for testing many positions.
        n_positions : int
            Number of positions that are tested.
        metric : str or None
            Name of the metric; some have fewer distinct permutations.

        Returns
        -------
        p : float
            The smallest attainable p-value.
        """
        n_rows = self.n_permutations + 1
        if not is_of_one_class(metric):  # which changes when classes change names
            n_rows /= self.parameters.get("renamings", 1)
        return smallest_p_value(n_rows - 1, n_positions, correction)

    def _is_scalar(self, name):
        """Tell a metric with one number per position from a confusion matrix."""
        return np.ndim(self.metrics[name]) == len(self.axes)

    @property
    def scalar_metrics(self) -> list[str]:
        """Names of the metrics that have one number per position."""
        return [name for name in self.scoring if self._is_scalar(name)]

    def check_metric(self, metric: str | None) -> str:
        """Return the name of a metric that has one number per position.

        Parameters
        ----------
        metric : str or None
            Name of a metric; None takes the first.

        Returns
        -------
        metric : str
            Its name.

        Raises
        ------
        ValueError
            If the result has no such metric, or if the metric is a table.
        """
        metric = self.scoring[0] if metric is None else metric
        allowed = self.scalar_metrics
        if isinstance(metric, str) and metric in set(self.scoring).difference(allowed):
            raise ValueError(
                f"The metric {metric!r} is not one number per position, so it has no "
                f"p-value and no curve. Metrics of this result that have: {allowed}."
            )
        return check_option("metric", metric, allowed)

    def correction_name(self, name: str | None) -> str:
        """Return the name of a correction.

        Parameters
        ----------
        name : str or None
            Name of a correction; None takes the one requested in the call, if any.

        Returns
        -------
        name : str
            The name as the package spells it.

        Raises
        ------
        ValueError
            If the correction is not known.
        """
        return check_correction(name)

    def p_of_map(self, correction: str, metric: str, **options: Any) -> NDArray:
        """Return the p-values marked in figures, with the options of `pvalues`.

        Parameters
        ----------
        correction : str
            Correction for testing many positions.
        metric : str
            Name of the metric.
        **options
            Further options of `pvalues`.

        Returns
        -------
        p : array, shape (positions...)
            The p-values.
        """
        return np.asarray(self.pvalues(correction, metric=metric, **options))

    def _frame(self, maps, corrections, metric=None):
        """Make a table of places and maps and, if there are any, of p-values."""
        import pandas as pd  # slow to import, and only tables need it

        table = self._columns() | maps
        if self.has_p and maps:
            table |= self._p_columns("none", "p", metric)
            # A single position has nothing to correct for.
            for name in corrections if self.axes else ():
                column = f"p_{name.replace('-', '_')}"
                table |= self._p_columns(name, column, metric)
        return pd.DataFrame({name: np.ravel(v) for name, v in table.items()})

    def _columns(self):
        """The columns of a table that say where every position is."""
        return self.places.columns()

    def _p_columns(self, correction, column, metric):
        """The columns of a table with p-values under a correction."""
        return {column: self.p_of_map(correction, metric)}

    def _peak_of(self, metric, correction):
        """The place, score and p-values where a map is highest."""
        corrections = [correction] if correction != "none" else []
        table = self._frame({metric: self.metrics[metric]}, corrections, metric)
        if table[metric].isna().all():
            raise ValueError("This result has no scores, so no peak.")
        return table.iloc[[self.best_position(metric)]].to_dict("records")[0]

    def favour(self, metric: str, alternative: str = "greater") -> NDArray:
        """Return how strongly scores (positions...) favour the alternative.

        Parameters
        ----------
        metric : str
            Name of the metric.
        alternative : {"greater", "less", "two-sided"}
            Which scores are tested for, unless the result defines it.

        Returns
        -------
        distance : array, shape (positions...)
            The larger, the more a score favours the alternative.
        """
        scores, centre = np.asarray(self.metrics[metric], float), self.chances[metric]
        side = self.side_of(metric) if alternative == "greater" else alternative
        if side == "less":
            return -scores
        two_sided = side == "two-sided" and np.isfinite(centre)
        centre = self.null_level(metric) if two_sided else centre
        return np.abs(scores - centre) if two_sided else scores

    def side_of(self, metric: str) -> str:
        """Return the default alternative that a map is tested for.

        Parameters
        ----------
        metric : str
            Name of the metric.

        Returns
        -------
        alternative : {"greater", "less", "two-sided"}
            The alternative, unless another one is requested.
        """
        return "greater"

    def best_position(self, metric: str) -> int:
        """Return the position, in C order, that favours the alternative most.

        Parameters
        ----------
        metric : str
            Name of the metric.

        Returns
        -------
        position : int
            Its index in the flattened map, in C order.
        """
        return int(np.nanargmax(self.favour(metric)))

    def __repr__(self):
        """Describe the result in one line."""
        return f"<{type(self).__name__}: {' | '.join(self._words())}>"

    #: The correction of the figures.
    default_correction: ClassVar[str] = "max"

    @property
    def significance_level(self) -> float:
        """The level of figures and texts, unless another one is requested."""
        return ALPHA

    def _facts(self):
        """What a notebook's table shows: name -> words."""
        facts = {}
        if self.scalar_metrics:
            found = Finding(self)
            name = found.worded(found.label)
            facts[capital(name)] = found.best
            if self._is_small and self.has_p:
                facts["Test"] = found.test
        facts["Positions"] = self.places.describe()
        return facts | {"Computed from": ", ".join(self.title_parts())}

    def worded_peak(self, metric: str) -> str:
        """Describe the score that favours the alternative most, and its position.

        Parameters
        ----------
        metric : str
            Name of the metric.

        Returns
        -------
        words : str
            The score, its position, and its chance level.
        """
        return Finding(self, metric=metric).best

    def permuted_mean(self, metric: str | None = None) -> float:
        """Return the mean score of permuted labels where it is not the chance level.

        Without an effect scores are around it, not around chance: of unequal classes,
        models favour the largest.

        Parameters
        ----------
        metric : str or None
            Name of the metric; None takes the first.

        Returns
        -------
        mean : float
            The mean over permutations and positions. NaN if it differs from chance by
            less than four standard errors or a fifth of the standard deviation of a
            permuted score, and without permutations or a chance level.
        """
        return self._permuted_mean(self.scoring[0] if metric is None else metric)

    def _permuted_mean(self, metric):
        """The mean score of permuted labels where it is not the chance level."""
        tests = self.kept_tests(metric)
        centre = centre_of(tests[0].null) if tests else None
        off = centre is not None and centre.is_off(self.chances[metric])
        return centre.mean if off else np.nan

    def null_level(self, metric: str) -> Any:
        """Return where scores are without an effect.

        Parameters
        ----------
        metric : str
            Name of the metric.

        Returns
        -------
        level : float or array, shape (positions...)
            The mean of permuted labels where it is not the chance level, or chance.
        """
        permuted = self._permuted_mean(metric)
        return permuted if np.isfinite(permuted) else self.chances[metric]

    def worded_chance(
        self, metric: str | None = None, word: Callable[[float], str] = rounded
    ) -> str:
        """Describe the chance level and, if it differs, the mean of permuted labels.

        Parameters
        ----------
        metric : str or None
            Name of the metric; None takes the first.
        word : callable
            What words a number.

        Returns
        -------
        words : str
            E.g. "chance 0.500" or "chance 0.500; mean of permuted labels 0.785"; empty
            without a chance level.
        """
        metric = self.scoring[0] if metric is None else metric
        chance, permuted = self.chances[metric], self.permuted_mean(metric)
        words = f"chance {word(chance)}" if np.isfinite(chance) else ""
        if np.isfinite(permuted):
            words += f"; {mean_of_permuted(metric)} {word(permuted)}"
        return words

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
        inside = self.places.find(where) & self._with_scores()
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
            for labels in labels_above(np.where(counted, heights, -np.inf), adjacency):
                inside = labels > 0
                bounds = n_true(levels[:, inside.ravel()], labels[inside] - 1)
                n = np.bincount(labels[inside] - 1)
                # A product that should be whole may exceed it by a rounding error.
                n[bounds < share * n * (1 - 1e-12)] = 0
                sizes[inside] = np.maximum(sizes[inside], n[labels[inside] - 1])
        return sizes

    def _with_scores(self):
        """Where there are scores, bool, of the shape of the map."""
        return np.isfinite(np.asarray(self.metrics[self.scoring[0]], dtype=float))

    def _noun(self):
        """What a position of the map is called."""
        if self.places.geometry is not None:
            return self.places.geometry.noun
        return AXES["times"].point if [*self.axes] == ["times"] else "position"

    def worded_place(self, position: int) -> str:
        """Describe a position of the flattened map.

        Parameters
        ----------
        position : int
            Index of a position in the flattened map, in C order.

        Returns
        -------
        words : str
            The position, e.g. "at 0.12 s".
        """
        return self.places.at(position)


@record
class SubjectResult(OptionsMixin, ScoreMap, Generic[Scores]):
    """Scores of one subject's trials, and their scores under permuted labels.

    A new kind of map is a subclass with one field of coordinates per axis and `axes`
    naming these fields.

    Parameters
    ----------
    metrics : dict of str -> array, shape (positions...)
        Name -> score of the observed labels. The confusion matrix is (positions..., c,
        c): true classes in rows, predicted classes in columns.
    nulls : dict of str -> array, shape (P, positions...)
        Name -> scores under permuted labels.
    chances : dict of str -> float
        Name -> chance level, NaN where there is none.
    classes : array, shape (c,)
        The labels of the classes.
    y : array of int, shape (n,)
        Class of each trial, an index into `classes`.
    groups : array, shape (n,), or None
        Group of each trial.
    predicted : array of int, shape (positions..., n)
        Predicted class of each trial, an index into `classes`; -1 for a trial that was
        in no test set.
    tests : tuple of arrays of int
        Row indices of each test set.
    parameters : dict
        The arguments of the analysis.
    versions : dict of str -> str
        Versions of the packages that made the result.
    penalty : dict of str -> float or array
        Values recorded for the penalties: "lambda" and "degrees_of_freedom" and, if
        they were tuned, "kernel", "grid", "scale" and "criterion"; see `lambdas`.
    members : array of int, shape (n, k), or None
        The trials averaged into each pseudo-trial; None without averaging.
    fold_metrics : dict of str -> array, shape (positions..., n_folds)
        Name -> score of each test set alone, for the observed labels. NaN where a test
        set has none, e.g. the ROC AUC of a single class.
    trains : tuple of arrays of int, or None
        Row indices of each training set; None if each consists of all rows outside the
        test set. See `folds`.
    repeats : dict of str -> array, shape (positions..., n_repeats)
        Name -> score of each repeat, for the observed labels; empty without repeats.
        With repeats, trials and test sets are those of all repeats in turn.
    """

    metrics: dict[str, Any]
    nulls: dict[str, NDArray]
    chances: dict[str, float]
    classes: NDArray
    y: NDArray
    groups: NDArray | None
    predicted: NDArray
    tests: tuple[NDArray, ...]
    parameters: dict[str, Any]
    versions: dict[str, str]
    penalty: dict[str, Any] = field(default_factory=dict)
    members: NDArray | None = None
    fold_metrics: dict[str, NDArray] = field(default_factory=dict)
    trains: tuple[NDArray, ...] | None = None
    repeats: dict[str, NDArray] = field(default_factory=dict)

    has_predictions: ClassVar[bool] = True

    def __post_init__(self):
        """Normalize the arrays and check that their shapes belong together."""
        super().__post_init__()
        self._convert(plain_values, "metrics", "penalty")
        self._convert(lambda tests: tuple(map(np.asarray, tests)), "tests")
        if self.trains is not None:
            self._convert(lambda trains: tuple(map(np.asarray, trains)), "trains")
        self._check_shapes()

    def _check_shapes(self):
        """Raise a ValueError unless every map has a value at every position."""
        shape, n = self.shape, self.n_tested
        parts = {
            **{f"metric {k!r}": np.shape(v) for k, v in self.metrics.items()},
            **{f"null of {k!r}": v.shape[1:] for k, v in self.nulls.items()},
            **{f"folds of {k!r}": v.shape for k, v in self.fold_metrics.items()},
        }
        wrong = [k for k, got in parts.items() if got[: len(shape)] != shape]
        if self.predicted.shape != (*shape, n):
            wrong.append("predicted")
        names = set(self.metrics)
        if not names or set(self.nulls) - names or names - set(self.chances):
            wrong.append("the metrics' names")
        if wrong:
            raise ValueError(
                f"A {type(self).__name__} with positions {shape} and {n} trials got "
                f"other shapes for: {', '.join(wrong)}."
            )

    def sel(self, *, place: Any = None, **where: Any) -> Self:
        """Return the result at some places, times or frequencies.

        Corrections for multiple testing are then for these positions alone: choose
        them before you look at the scores.

        Parameters
        ----------
        place : str, int, tuple, mne.Label, image, or list of these
            Sensors by name. Regions and parcels by name, or regions by their number in
            the atlas. The voxel that contains ``(x, y, z)``, in mm and in the space of
            the decoded images: MNI coordinates if these were in MNI space. Vertices,
            ``("left", 1234)``, or of source estimates ``"lh 1234"``, a structure such
            as ``"lh"``, or a label. An image that is zero outside a set of voxels or
            vertices, or its path. Places stay in the order of the map.
        **where
            Axes of the map, ``times``, ``freqs``, ``train_times`` or ``test_times``:
            ``slice(start, stop)`` with both ends included, in seconds or Hz, or a
            number, which takes the nearest sample.

        Returns
        -------
        result : result of the same kind
            With fewer positions; ``parameters["selection"]`` says which. It cannot be
            verified, as the whole result can.

        Raises
        ------
        TypeError, ValueError
            If the map has no such axis or no places, if no position is there or none
            was decoded, or if only summaries of the permutations were kept.

        Examples
        --------
        >>> import numpy as np
        >>> from mvpa_kfda import decode_arrays, decode_regions
        >>> rng = np.random.default_rng(0)
        >>> X, y = rng.normal(size=(40, 5, 10)), rng.permutation(["cat", "dog"] * 20)
        >>> result = decode_arrays(X, y, sfreq=20, n_permutations=19)
        >>> result.sel(times=slice(0.1, 0.3)).times
        array([0.1 , 0.15, 0.2 , 0.25, 0.3 ])
        >>> result.sel(times=0.2).scores.shape
        (1,)
        >>> areas = ["V1", "V1", "V2", "V2", "FFA"]
        >>> regions = decode_regions(X[:, :, 0], y, labels_img=areas)
        >>> regions.sel(place=["V1", "FFA"]).to_dataframe()["region"].tolist()
        ['FFA', 'V1']
        """
        where |= {} if place is None else {"place": place}
        return select(self, where)

    @property
    def n_tested(self) -> int:
        """Number of trials that have predictions."""
        return len(self.y_tested)

    @property
    def scores(self) -> Scores:
        """Scores of the first metric at each position."""
        return next(iter(self.metrics.values()))

    @property
    def null(self) -> NDArray:
        """Scores of the first metric under permuted labels, (P, positions...)."""
        name = self.scoring[0]
        if name in self._kept("null_summaries"):
            raise ValueError(
                "result.null was not kept, to save memory; result.null_max has the "
                "largest score of each permuted map, and result.pvalues() works. For "
                "all maps run the analysis again with null='full'."
            )
        return self.null_of(name)

    @property
    def chance(self) -> float:
        """Chance level of the first metric."""
        return self.chances[self.scoring[0]]

    @property
    def fold_scores(self) -> NDArray:
        """Scores of the first metric in each test set, (positions..., n_folds).

        For metrics of predicted classes, `scores` are computed over all trials
        together, which equals the mean over test sets of equal size; areas under ROC
        curves and custom functions are averaged over test sets.
        """
        name = self.scoring[0]
        if name not in self.fold_metrics:
            raise AttributeError(
                "This result has no scores of single folds: its metric is a table, or "
                "it comes from a version that did not keep them."
            )
        return self.fold_metrics[name]

    @property
    def lambdas(self) -> Any:
        """The penalty lambda at each position: one for all folds, or (..., n_folds)."""
        return self._recorded("lambda")

    @property
    def degrees_of_freedom(self) -> Any:
        """The trace of the hat matrix for each of the `lambdas`.

        For all trials, or for the training trials if each fold has its own matrix.
        """
        return self._recorded("degrees_of_freedom")

    def _recorded(self, name):
        """What is recorded of the penalty."""
        if name not in self.penalty:
            raise AttributeError(
                "This result comes from a version that did not record its penalties; "
                "run the analysis again."
            )
        return self.penalty[name]

    @property
    def n_permutations(self) -> int:
        """Number of label permutations, not counting the observed labels."""
        counts = [len(null) for null in self.nulls.values()]
        kept = self._kept("null_summaries").values()
        return max([*counts, *(int(x["n_permutations"]) for x in kept)], default=0)

    @property
    def folds(self) -> list[tuple[NDArray, NDArray]]:
        """Row indices of each fold, a list of (train, test).

        With separate test trials: all training trials, and all test trials.
        """
        if self.tests_other_trials:
            return [(np.arange(self.parameters["n_trained"]), self.tests[0])]
        if self.trains is not None:
            return list(zip(self.trains, self.tests, strict=True))
        rows = np.arange(len(self.y))
        return [(np.setdiff1d(rows, test), test) for test in self.tests]

    @property
    def train_rows(self) -> NDArray | None:
        """The training trials if these are never tested, else None."""
        if self.parameters.get("train_on") is None or self.trains is None:
            return None
        return np.unique(np.concatenate(self.trains))

    @property
    def true_classes(self) -> NDArray:
        """The classes of the trials that are in at least one test set."""
        return self.y_tested[np.unique(np.concatenate(self.tests))]

    @property
    def y_tested(self) -> NDArray:
        """Class of each tested trial, an index into `classes`."""
        return self.y

    @property
    def mode(self) -> str | None:
        """How training and test data of time generalization are related."""
        return self.parameters.get("mode")

    @property
    def tests_other_trials(self) -> bool:
        """Whether models are tested on a separate set of trials."""
        return self.mode == "other_trials"

    @property
    def is_tested_twice(self) -> bool:
        """Whether two null hypotheses have to be rejected."""
        names = self.scalar_metrics
        return any(self._null_kept(name, second=True) is not None for name in names)

    #: The positions that are exempt from the second test, or None.
    _exempt: ClassVar[Any] = None

    def _kept(self, field):
        """What a field holds by metric, which not all kinds of results have."""
        return vars(self).get(field, {})

    def _null_kept(self, metric, second=False):
        """What was kept of the null of a metric in one of the tests, or None."""
        summaries = self._kept("second_summaries" if second else "null_summaries")
        if metric in summaries:
            return NullSummary.from_arrays(summaries[metric])
        return self._kept("second_nulls" if second else "nulls").get(metric)

    @property
    def is_tuned(self) -> bool:
        """Whether the penalty was tuned, so that the tuning can be plotted."""
        return "grid" in self.penalty and hasattr(self, "plot_tuning")

    @cached_property
    def places(self) -> Places:
        """The positions: `kind`, `axes`, `coordinates` and, in a brain, `geometry`."""
        return Places.of(self)

    def null_of(self, metric: str) -> NDArray:
        """Return the scores under permuted labels, if all of them were kept.

        Parameters
        ----------
        metric : str
            Name of the metric.

        Returns
        -------
        null : array, shape (P, positions...)
            P is 0 if there are none.
        """
        return self.nulls.get(metric, super().null_of(metric))

    @property
    def predictions(self) -> NDArray:
        """Predicted labels, or values, (positions..., n_trials).

        Of labels a plain array, or a masked one if some trials were in no test set;
        values are NaN there. Class scores, or values, of a trial in several test sets
        are averaged; the metrics use the prediction of each test set.
        """
        if not len(self.classes):
            return self.predicted
        missing = self.predicted < 0
        labels = self.classes[np.where(missing, 0, self.predicted)]
        return np.ma.masked_array(labels, missing) if missing.any() else labels

    def pvalues(
        self,
        correction: CorrectionName = "none",
        *,
        metric: str | None = None,
        threshold: float = 0.05,
        alternative: Alternative = "greater",
    ) -> Scores:
        """Compute permutation p-values.

        Uncorrected, p = (1 + b) / (1 + P), where b of the P permutations score at least
        as high as the observed labels [1]_.

        Parameters
        ----------
        correction : str
            Correction for testing many positions: "none", "max", "max-step-down",
            "bonferroni", "holm", "fdr", "fdr-by", "cluster", "cluster-size",
            "cluster-depth" (time courses only) or "tfce", described in
            `mvpa_kfda.inference.corrections`. On brain maps, clusters are connected by
            `adjacency`, and over time also across adjacent time points. Cluster
            p-values refer to whole clusters, and "tfce" may mark positions without an
            effect next to one that has an effect. Results that may keep a summary of
            the permuted maps have "cluster" and "tfce" with ``null="auto"`` or
            ``"full"``; "cluster-size", "max-step-down" and alternatives other than
            "greater" require ``"full"``.
        metric : str or None
            Name of the metric; None takes the first.
        threshold : float
            Cluster-forming threshold (a p-value), for corrections by clusters; 0.05 if
            not all permuted maps were kept.
        alternative : {"greater", "less", "two-sided"}
            Whether to test for scores above those of permuted labels, below them, or
            further from their mean. Decoding usually tests for "greater".

        Returns
        -------
        p : float or array
            One p-value per position, NaN where decoding was not possible; a float for a
            single position.

        Raises
        ------
        ValueError
            If the metric or the correction is unknown, without permutations, or if
            the correction needs more of the null than was kept.

        References
        ----------
        .. [1] Phipson, B., & Smyth, G. K. (2010). Permutation p-values should never be
           zero. Statistical Applications in Genetics and Molecular Biology, 9(1), 39.
        """
        metric = self.check_metric(metric)
        tests = self.permuted(metric, "p-values")
        check_option("alternative", alternative, ALTERNATIVES)
        how = {"threshold": threshold, "alternative": alternative}
        return plain(self._p_of_tests(tests, metric, correction, **how))

    def _p_of_tests(self, tests, metric, correction, **options):
        """The p-values (positions...) of tests of a metric, under a correction."""
        nulls = nulls_of(tests, adjacency=self.places.adjacency(), **options)
        return correct(nulls, correction)

    def permuted(self, metric: str, what: str) -> list[Any]:
        """Return what was kept of the tests of a metric, or raise an error.

        Parameters
        ----------
        metric : str
            Name of the metric.
        what : str
            What needs permutations.

        Returns
        -------
        tests : list
            As of `kept_tests`, one at least.

        Raises
        ------
        ValueError
            Without permutations.
        """
        kept = self.kept_tests(metric)
        if kept:
            return kept
        summarised = self.parameters.get("null") in ("max", "stream")
        if self.parameters.get("n_permutations") and summarised:
            raise ValueError(
                "The scores of the permutations were not kept for this result "
                f"(null='max', or 'auto' for large maps). Take the {what} of the whole "
                "map, or run the analysis again with null='full'."
            )
        raise ValueError(self._advise_permutations(what))

    def _advise_permutations(self, what):
        """Say how to have what needs permutations."""
        return (
            f"This result has no label permutations, so no {what}; run the analysis "
            "again with n_permutations=1000 or so."
        )

    @property
    def has_p(self) -> bool:
        """Whether there are p-values."""
        return self.n_permutations > 0

    @property
    def _is_small(self):
        """Whether p-values and figures take no more than a glance."""
        return sum(null.size for null in self.nulls.values()) < _MANY_SCORES

    def clusters(
        self,
        correction: CorrectionName = "cluster",
        *,
        metric: str | None = None,
        threshold: float = 0.05,
        alternative: Alternative = "greater",
        alpha: float = 0.05,
    ) -> DataFrame:
        """Return a table of the clusters of neighbouring positions.

        With "cluster" and "cluster-size" these are all clusters that were tested,
        whatever their p. Such a p refers to the cluster as a whole: it does not
        establish when or where an effect begins or ends [1]_. With any other
        correction, clusters are connected positions with p <= alpha.

        Parameters
        ----------
        correction : str
            Correction for testing many positions: "none", "max", "max-step-down",
            "bonferroni", "holm", "fdr", "fdr-by", "cluster", "cluster-size",
            "cluster-depth" (time courses only) or "tfce", described in
            `mvpa_kfda.inference.corrections`.
        metric : str or None
            Name of the metric; None takes the first.
        threshold : float
            Cluster-forming threshold (a p-value), for corrections by clusters.
        alternative : {"greater", "less", "two-sided"}
            Whether to test for scores above those of permuted labels, below them, or
            further from their mean. Decoding usually tests for "greater". Clusters of
            high and of low scores stay apart.
        alpha : float
            Significance level of positions, not used by "cluster" and "cluster-size";
            also 1 minus the confidence of ``n_true``.

        Returns
        -------
        table : pandas.DataFrame
            One row per cluster, sorted by smallest p, then largest mass; no rows
            without clusters. ``from`` and ``to`` are its first and last time in
            seconds, for time generalization a tuple (training, testing); for brain maps
            the smallest and the largest (x, y, z) in mm, NaN without coordinates.
            ``places`` describes its extent along other axes: the sensors, frequencies
            or regions, or the number of voxels, vertices or times. ``mass`` is the sum
            of the standardised scores, negative for low scores and NaN if the null was
            not kept (``null="max"``). ``size`` is the number of positions. ``p`` is
            that of the cluster, or else the smallest of its positions. ``peak`` is the
            position of the highest score (the lowest for low scores), as in the columns
            of `to_dataframe`, a tuple if there are several. ``n_true`` and
            ``share_true`` are lower bounds on the number and the proportion of
            its positions that have an effect: for all clusters simultaneously with a
            confidence of 1 - alpha, see `true_discoveries`. A bound of 0 is no evidence
            against the cluster, whose p-value tests it as a whole. These two columns
            need ``null="full"`` and are omitted if only a summary was kept.

        Raises
        ------
        ValueError
            If `alpha` is not between 0 and 1, if there is only one position, or as in
            `pvalues`.

        Notes
        -----
        If two tests have to reject, as in time generalization, clusters consist of
        positions above the thresholds of both tests, and p is the larger of the two
        p-values, see `GeneralizationResult.pvalues`. ``mass`` sums the standardised
        score that is nearer to zero at each position.

        References
        ----------
        .. [1] Sassenhagen, J., & Draschkow, D. (2019). Cluster-based permutation tests
           of MEG/EEG data do not establish significance of effect latency or location.
           Psychophysiology, 56(6), e13335.

        Examples
        --------
        >>> import numpy as np
        >>> from mvpa_kfda import decode_arrays
        >>> rng = np.random.default_rng(0)
        >>> y = rng.permutation(["face", "house"] * 30)
        >>> X = rng.normal(size=(60, 4, 6))  # trials, features, times
        >>> X[y == "house", :, 3:] += 2
        >>> result = decode_arrays(X, y, sfreq=10, n_permutations=99, random_state=0)
        >>> result.clusters()[["from", "to", "size", "p", "peak"]].round(2)
           from   to  size     p  peak
        0   0.3  0.5     3  0.01   0.3
        """
        check_share("alpha", alpha)
        refuse_single(self)
        correction, metric = check_correction(correction), self.check_metric(metric)
        how = {"threshold": threshold, "alternative": alternative}
        p = np.asarray(self.pvalues(correction, metric=metric, **how))
        strength, height = self._cluster_scores(metric, **how)
        return cluster_table(
            places=self.places,
            scores=np.asarray(self.metrics[metric]),
            chance=self.chances[metric],
            strength=strength,
            height=height,
            p=p,
            alpha=alpha,
            alternative=alternative,
            of_clusters=CORRECTIONS[correction].of_clusters,
            levels=self._levels(metric, alternative, alpha),
        )

    def _cluster_scores(self, metric, **options):
        """What clusters are formed of, NaN if not kept, and at which height."""
        counted = np.isfinite(self.metrics[metric])
        return cluster_scores(counted, self.kept_tests(metric), **options)

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
        """The maps (positions...) in which regions are where they are high."""
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

    @property
    def checksum(self) -> str:
        """SHA-256 of scores, permuted scores, predictions and recorded inputs.

        Groups record it of each subject, see :func:`~mvpa_kfda.verify`.
        """
        maps = {"predicted": {"": self.predicted}}
        for kind in ("metrics", "nulls", "second_scores", "second_nulls"):
            maps[kind] = getattr(self, kind, {})
        arrays = {f"{k} {n}": x for k, each in maps.items() for n, x in each.items()}
        read = {k: [v] if isinstance(v, str) else v for k, v in self.inputs.items()}
        for name in ("files", PROJECTIONS):  # called otherwise elsewhere, and rounded
            read.pop(name, None)
        return checksum_of(arrays, read)

    def kept_tests(self, metric: str) -> list[KeptTest]:
        """Return what was kept of each test of a metric.

        Parameters
        ----------
        metric : str
            Name of the metric.

        Returns
        -------
        tests : list
            Of each test that has to reject: the observed ``scores`` (positions...), the
            ``null``, scores under permuted labels (P, positions...) or a summary of
            them, and the positions that are ``exempt`` from the test, or None. Empty
            without permutations.
        """
        scores = np.asarray(self.metrics[metric])
        null, second = (self._null_kept(metric, each) for each in (False, True))
        if isinstance(null, np.ndarray) and not len(null):
            null = None
        tests = [] if null is None else [KeptTest(scores, null)]
        if second is not None:
            scores = self._kept("second_scores").get(metric, self.metrics[metric])
            tests.append(KeptTest(scores, second, self._exempt))
        return tests

    def to_dataframe(
        self,
        corrections: CorrectionNames = ("max",),
        *,
        metric: str | None = None,
    ) -> DataFrame:
        """Return a table with one row per position.

        Parameters
        ----------
        corrections : str or sequence of str
            Corrections to add as columns ``p_<correction>``, with underscores in place
            of hyphens: ``p_max_step_down``. Omitted for a single position, which needs
            no correction.
        metric : str or None
            The metric of the p-values; None takes the first scalar one. For a metric of
            pairs of classes, such as "crossnobis_distances", the table has one row per
            position and pair.

        Returns
        -------
        table : pandas.DataFrame
            The position (``time`` in seconds, ``freq`` in Hz, ``sensor`` by name), all
            scalar metrics and, with permutations, ``p`` (uncorrected) and one column
            per correction. For pairs: the position, ``class_1``, ``class_2``, and the
            metric.
        """
        corrections = known_corrections(corrections, "corrections")
        if metric in self.pair_tables:
            return self._frame_of_pairs(metric)
        names = self.scalar_metrics
        maps = {name: self.metrics[name] for name in names}
        metric = names[0] if names and metric is None else metric
        return self._frame(maps, corrections, metric)

    @property
    def matrices(self) -> dict[str, NDArray]:
        """Tables of pairs of classes (positions..., pairs) by kind; none here."""
        return {}

    @property
    def pair_tables(self) -> list[str]:
        """Names of the metrics that are tables of pairs of classes."""
        return []

    def peak(
        self, correction: CorrectionName = "max", *, metric: str | None = None
    ) -> dict[str, Any]:
        """Return the highest score and its position.

        Selected as the highest, it overestimates the score expected at that position in
        new data. "max" accounts for the selection: its p-value is that of the highest
        score of the map, while the uncorrected ``p`` is too small.

        Parameters
        ----------
        correction : str
            Correction of the p-value, as in `pvalues`.
        metric : str or None
            Name of the metric; None takes the first.

        Returns
        -------
        peak : dict
            The position, as in `to_dataframe`, the score under the name of its metric
            and, with permutations, ``p`` (uncorrected) and ``p_<correction>``. Ties are
            resolved in favour of the first position.

        Raises
        ------
        ValueError
            If the metric or the correction is unknown, or if no position has a score.
        """
        metric = self.check_metric(metric)
        return self._peak_of(metric, check_correction(correction))

    plot_null = figure_method(plot_map_null)

    def _words(self):
        """Parts of a line: best score, positions, trials, folds, draws."""
        name = self.scoring[0]
        found = Finding(self, metric=name).headline if self._is_scalar(name) else name
        parts = [found, *self._worded_positions()]
        tested = ", ".join(self.worded_folds())
        if self.tests_other_trials:
            tested = f"tested on {counted(self.n_tested, 'other')}"
        classes = f"{len(self.classes)} classes, " if len(self.classes) else ""
        parts.append(
            f"{self.worded_trials()}, {classes}{tested}, "
            f"{counted(self.n_permutations, 'permutation')}"
        )
        return parts

    def title_parts(self) -> list[str]:
        """Return the parts of a figure's title: trials, classes, folds and draws.

        Returns
        -------
        parts : list of str
            Parts of a title, to be joined by commas.
        """
        parts = [self.worded_trials()]
        if len(self.classes):  # none in regression
            names = ", ".join(str(name) for name in self.classes)
            named = f" ({names})" if len(names) <= 25 else ""
            parts.append(f"{len(self.classes)} classes{named}")
        if not self.tests_other_trials:
            parts += self.worded_folds()
        if self.n_permutations:
            parts.append(counted(self.n_permutations, "permutation", ","))
        return parts

    @property
    def n_repeats(self) -> int:
        """Number of times the procedure was run on the trials."""
        return self.parameters.get("n_repeats", 1)

    def worded_folds(self) -> list[str]:
        """Describe the folds of a repeat, and the repeats if there are several.

        Returns
        -------
        parts : list of str
            The folds of one repeat and, if there are several, the repeats.
        """
        r = self.n_repeats
        folds = [counted(len(self.tests) // r, "fold")]
        return folds if r == 1 else [*folds, counted(r, "repeat")]

    def _worded_positions(self):
        """Word the positions of the map, if there are several."""
        return [self.places.describe()] if self.axes else []

    def worded_trials(self) -> str:
        """Describe the number of trials, and the number averaged into each.

        For one repeat, if there are several.

        Returns
        -------
        words : str
            The trials of one repeat.
        """
        if self.train_rows is not None:
            trained = counted(len(self.train_rows) // self.n_repeats, "trial")
            tested = counted(len(self.true_classes) // self.n_repeats, "other")
            return f"trained on {trained}, tested on {tested}"
        n = len(self.y) // self.n_repeats
        k = self.parameters.get("average") or 1
        if self.members is not None:
            k = np.shape(self.members)[1]
        if k == 1:
            return counted(n, "trial")
        if self.members is None:
            return f"{counted(n, 'trial')} (trained on averages of {k})"
        return f"{counted(n, 'average')} of {k} trials ({n * k})"


@record
class SummariesMixin:
    """A result whose null may be summarised; comes before `SubjectResult` as a base.

    Parameters
    ----------
    nulls : dict of str -> array, shape (P, positions...)
        Name -> scores under permuted labels, in single precision. Empty if only a
        summary was kept.
    null_summaries : dict of str -> dict
        Name -> summary that was kept instead, see
        `mvpa_kfda.inference.null.NullSummary`.
    """

    null_summaries: dict[str, Any] = field(default_factory=dict)

    @property
    def null_max(self) -> NDArray:
        """The largest score of the first metric in each permuted map, (P,)."""
        kept = self._null_kept(self.scoring[0])
        return np.empty(0) if kept is None else largest_scores(kept)

    def _check_summaries(self, shape, fitting):
        """Raise a ValueError unless the summaries are of so many positions."""
        for name in self.null_summaries:
            if self._null_kept(name).exceedances.shape != shape:
                raise ValueError(f"The summary of {name!r} does not fit {fitting}.")
