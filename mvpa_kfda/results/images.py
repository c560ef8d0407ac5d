"""The result of decoding images: a score at every voxel, vertex, region or feature."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from ..data.space import VolumeSpace
from ..inference.clusters import components
from ..inference.corrections import (
    CorrectionName,
    check_correction,
    correct,
    nulls_of,
)
from ..inference.null import check_level
from ..utils.checks import check_positive
from ..viz.brains import plot_patterns, plot_volume
from ..viz.confusion import plot_confusion
from ..viz.interactive import view_map
from ..viz.style import check_request, find_marked, shown_metric
from .base import SubjectResult, SummariesMixin
from .dissimilarity import DissimilarityMixin
from .fields import figure_method, result_kind
from .patterns import RegionPatternsMixin
from .places import check_pairs
from .views import MAPS, make_image, map_of

if TYPE_CHECKING:
    from pandas import DataFrame

    from ..viz.interactive import Colormap

#: Images of scores in single precision differ from them by less.
_ROUNDED = 1e-5


@result_kind
class VolumeResult(
    RegionPatternsMixin, SummariesMixin, DissimilarityMixin, SubjectResult[NDArray]
):
    """Decoding across the brain, see :func:`searchlight` and :func:`decode_regions`.

    A position is the centre of a searchlight, a region, or a feature. Positions that
    could not be decoded, such as voxels outside the brain, have NaN scores and p-values
    and are excluded from corrections.

    Parameters
    ----------
    positions : array of int, shape (V,)
        Numbers of the positions, 0 to V - 1.
    space : dict
        The geometry of the positions; `geometry` unpacks it.
    adjacency : array of int, shape (2, n_pairs)
        Pairs of neighbouring positions, each once, which define clusters.
    n_features : array of int, shape (V,)
        Number of features decoded together at each position, e.g. the voxels of its
        sphere; 0 where decoding was not possible.
    null_summaries : dict of str -> dict
        Name -> what was kept instead, see `mvpa_kfda.inference.null.NullSummary`; only
        for the decoded positions.
    predicted : array of int, shape (V, n)
        Predicted class of each trial, an index into `classes`; -1 for a trial that was
        in no test set, and where decoding was not possible.
    parameters : dict
        The arguments of the analysis; ``parameters["null"]`` is "full", "max" or, if
        ``null="auto"`` did not keep all permuted maps, "stream".

    Examples
    --------
    >>> import numpy as np
    >>> from nibabel import Nifti1Image
    >>> from mvpa_kfda import searchlight
    >>> rng = np.random.default_rng(0)
    >>> y = np.tile(["face", "house"], 20)
    >>> bold = rng.normal(size=(5, 1, 1, 40))
    >>> bold[3, 0, 0] += 3 * (y == "face")
    >>> affine = np.diag([4.0, 4.0, 4.0, 1.0])
    >>> mask = Nifti1Image(np.ones((5, 1, 1), dtype=np.uint8), affine)
    >>> bold = Nifti1Image(bold, affine)
    >>> options = {"radius": 4.0, "n_permutations": 99, "random_state": 0}
    >>> result = searchlight(bold, y, mask_img=mask, **options)
    >>> result.pvalues("max") <= 0.05
    array([False, False,  True,  True,  True])
    >>> result.peaks()[["x", "p_max", "cluster_size_mm3"]]
          x  p_max  cluster_size_mm3
    0  16.0   0.01             192.0
    >>> result.to_img("p").get_fdata().ravel().round(2)[2:]
    array([0.01, 0.01, 0.01])
    """

    axes: ClassVar[dict[str, str]] = {"positions": "position"}
    keeps_condensed: ClassVar[bool] = True

    positions: NDArray
    space: dict[str, Any]
    adjacency: NDArray
    n_features: NDArray

    def __post_init__(self):
        """Normalize the arrays and check that their shapes belong together."""
        super().__post_init__()
        n = len(self.positions)
        if self.geometry.n_positions != n or self.n_features.shape != (n,):
            raise ValueError(
                f"A result of {n} positions needs a space of as many and one number "
                f"of features for each; got {self.geometry.describe()} and n_features "
                f"of shape {self.n_features.shape}."
            )
        check_pairs(self.adjacency, n, "positions")
        # Anything else would be counted wrongly in the corrections.
        for name in filter(self._is_scalar, self.metrics):
            if not np.array_equal(np.isnan(self.metrics[name]), ~self.decoded):
                raise ValueError(
                    f"The metric {name!r} must be NaN where n_features is 0, and only "
                    "there."
                )
        n_decoded = np.count_nonzero(self.decoded)
        fitting = f"a result with {n_decoded} decoded positions"
        self._check_summaries((n_decoded,), fitting)

    @property
    def coordinates(self) -> NDArray | None:
        """Coordinates of the positions in mm, (V, 3); None if they have none."""
        return self.geometry.points

    @property
    def decoded(self) -> NDArray:
        """Whether a position could be decoded, a boolean array (V,)."""
        return self.n_features > 0

    def _p_of_tests(self, tests, metric, correction, threshold, alternative):
        """The p-values (V,) of tests of a metric, NaN where nothing was decoded."""
        correction, threshold = check_correction(correction), check_level(threshold)
        key = metric, correction, threshold, alternative
        if key not in self._p_values:  # TFCE of all permuted maps takes minutes
            p, counted = np.full(self.shape, np.nan), self.decoded
            if counted.any():
                how = {"threshold": threshold, "alternative": alternative}
                how["adjacency"] = self.places.adjacency(counted)
                p[counted] = correct(nulls_of(tests, counted, **how), correction)
            self._p_values[key] = p
        return self._p_values[key].copy()

    @cached_property
    def _p_values(self):
        """The p-values that were asked for before."""
        return {}

    def _columns(self):
        """The columns of a table that say where every position is."""
        return super()._columns() | {"n_features": self.n_features}

    def _worded_positions(self):
        """Word the positions of the map."""
        text, n_decoded = self.geometry.describe(), np.count_nonzero(self.decoded)
        if n_decoded < len(self.positions):
            text += f", {n_decoded} of them decoded"
        return [text]

    def to_img(
        self,
        name: str | None = None,
        *,
        metric: str | None = None,
        correction: CorrectionName = "none",
        threshold: float = 0.05,
    ) -> Any:
        """Return an image of scores or p-values.

        Parameters
        ----------
        name : str or None
            The map to show. None: the scores of the first scalar metric, or of
            `metric`. The name of a metric: its scores. "p": p-values. "neglog10p":
            their -log10. "z": the normal deviates that p is the upper tail of; p = 1,
            which has none, is taken as P / (P + 1). "chance_difference": score minus
            chance level. "n_features": the number of features decoded together.
            "lambda", "degrees_of_freedom": values of the penalty, averaged over folds
            that have their own (geometric mean for lambda).
        metric : str or None
            The metric of the p-values and of the difference; None takes the first.
        correction : str
            Correction of the p-values, as in `pvalues`.
        threshold : float
            Cluster-forming threshold (a p-value), only for "cluster" and
            "cluster-size".

        Returns
        -------
        img : nibabel.Nifti1Image, nilearn.surface.SurfaceImage or nibabel.Cifti2Image
            On the grid of the mask, or on its meshes, in single precision ("p" in
            double precision, so that p <= 0.05 is preserved). NaN where decoding was
            not possible; 0 outside the mask, or 1 for "p". Regions are filled with
            their value. For CIFTI files: a scalar map with the columns of the images,
            to be saved as ``.dscalar.nii`` or, for parcels, ``.pscalar.nii``.

        Raises
        ------
        ValueError
            If there is no such map, if positions have no brain coordinates, or as in
            `pvalues`.
        """
        also = "result.geometry.to_img(result.null[0]) for one permutation's scores"
        also = (also,) if isinstance(name, str) and name in ("null", "null_max") else ()
        tested = {"metric": metric, "correction": correction, "threshold": threshold}
        name, values = map_of(
            self, name, "to_img", (*MAPS, "n_features"), also, **tested
        )
        return make_image(self, name, values)

    def warped(self, scores_img: Any, n_features_img: Any) -> VolumeResult:
        """Return the result with its maps in another space, where they were warped.

        For groups of subjects who were decoded in native space; :doc:`/recipes` has all
        steps. Nothing is registered here.

        Parameters
        ----------
        scores_img : image or path, 4D
            The scores of the first metric, then those of each permutation, as they came
            out of another program, with linear or nearest-neighbour interpolation.
        n_features_img : image or path
            ``to_img("n_features")``, warped to the same grid with nearest-neighbour
            interpolation. Where it is above 0 there are positions.

        Returns
        -------
        result : VolumeResult
            With the first metric only, and without predictions. Corrections are for the
            new voxels. It cannot be verified, as this result can.

        Raises
        ------
        ValueError
            If this is no searchlight in a volume with all its permuted maps; or if the
            images do not hold these maps, in this order.
        """
        from ..data.volumes import check_grid, load_3d, load_volume, read

        image = load_volume(scores_img, "scores_img")
        count = load_3d(n_features_img, "n_features_img")
        check_grid(count, image, "n_features_img", "scores_img", "Warp both to one.")
        name = self.scoring[0]
        data = read(image, "scores_img").reshape(*image.shape[:3], -1)
        maps = np.concatenate([[self.scores], self.null])[:, self.decoded]
        if self.geometry.kind != "volume" or data.shape[3] != len(maps):
            raise ValueError(
                f"scores_img has shape {image.shape}; it must hold the scores of a "
                f"searchlight in voxels and of its {len(maps) - 1} permutations, one "
                f"volume each. This result is of {self.geometry.describe()}."
            )
        n = np.rint(read(count, "n_features_img")).astype(int)
        inside = (n > 0) & np.isfinite(data).all(axis=3)
        new, known = data[inside], np.vstack([maps.T, [self.chances[name]] * len(maps)])
        beyond = new < np.nanmin(known, axis=0) - _ROUNDED
        beyond |= new > np.nanmax(known, axis=0) + _ROUNDED
        if beyond.any() or not len(new):
            raise ValueError(
                f"scores_img does not hold the maps of this result: of {len(new)} "
                f"voxels, {beyond.any(axis=1).sum()} exceed the range of a map. Warp "
                "those of the same subject, in the same order, with linear "
                "interpolation, and the chance level where nothing was decoded."
            )
        space = VolumeSpace(inside, image.affine)
        none = -1 if len(self.classes) else np.nan
        return replace(
            self,
            positions=np.arange(len(new)),
            space=space.pack(),
            adjacency=space.edges,
            n_features=n[inside],
            metrics={name: new[:, 0].astype(float)},
            nulls={name: new[:, 1:].T.astype(np.float32)},
            predicted=np.full((len(new), self.n_tested), none, self.predicted.dtype),
            parameters=self.parameters | {"warped": True},
            **{"fold_metrics": {}, "repeats": {}, "penalty": {}, "pattern_maps": {}},
            **{"pattern_features": (), "options": {}, "inputs": {}},
        )

    def view(
        self,
        name: str | None = None,
        *,
        metric: str | None = None,
        correction: CorrectionName = "max",
        alpha: float | None = None,
        threshold: float = 0.05,
        min_score: float | None = None,
        kind: Literal["stat_map", "surface"] | None = None,
        hemi: Literal["left", "right", "both"] = "both",
        cut_coords: Sequence[float] | None = None,
        bg_img: Any = None,
        vlim: tuple[float, float] | None = None,
        cmap: str | Colormap | None = None,
    ) -> Any:
        """View a map in the brain interactively.

        Click to move through a volume; drag to rotate a surface. The view is from
        Nilearn: it is displayed in notebooks, ``.open_in_browser()`` opens it, and
        ``.save_as_html("view.html")`` writes a self-contained page.

        Parameters
        ----------
        name : str or None
            The map to show, as in `to_img`. None: the scores of the first scalar
            metric, or of `metric`.
        metric : str or None
            The metric of the p-values and of the difference; None takes the first.
        correction : str
            Correction of the p-values, as in `pvalues`.
        alpha : float or None
            Show only positions with p <= alpha; None shows all.
        threshold : float
            Cluster-forming threshold (a p-value), only for "cluster" and
            "cluster-size".
        min_score : float or None
            Show positions with at least this score, instead of p <= alpha.
        kind : {"stat_map", "surface"} or None
            "stat_map": slices through voxels. "surface": meshes. None takes what is
            available, and the surface for CIFTI files with meshes.
        hemi : {"left", "right", "both"}
            Hemispheres of a surface to show.
        cut_coords : sequence of float or None
            Initial position of the slices, (x, y, z) in mm. None cuts through the
            highest value shown, or the smallest p-value.
        bg_img : image or None
            Background image, as in `plot`.
        vlim : tuple of float or None
            Limits of the colormap. None makes them symmetric about chance, or about
            zero for z-values and differences; for p-values they are 0 and 1, or 0 and
            `alpha`.
        cmap : str, matplotlib Colormap, or None
            The colormap. None takes that of `plot`.

        Returns
        -------
        view : nilearn.plotting.html_stat_map.StatMapView or SurfaceView
            The view.

        Raises
        ------
        ValueError
            As in `to_img`, and if an argument is not valid or positions have no brain
            coordinates.
        ImportError
            For a surface, if plotly is not installed, which Nilearn 0.14 and later
            require.

        Examples
        --------
        >>> import numpy as np
        >>> from nibabel import Nifti1Image
        >>> from mvpa_kfda import searchlight
        >>> rng = np.random.default_rng(0)
        >>> y = np.tile(["face", "house"], 20)
        >>> bold = Nifti1Image(rng.normal(size=(5, 5, 3, 40)), np.eye(4))
        >>> result = searchlight(bold, y, radius=2.0)
        >>> result.view(min_score=0.6).save_as_html("view.html")  # doctest: +SKIP
        """
        tested = {"metric": metric, "correction": correction, "threshold": threshold}
        name, values = map_of(self, name, "view", (*MAPS, "n_features"), **tested)
        if name == "n_features":
            values = np.where(self.decoded, values, np.nan)
        metric = name if name in self.metrics else shown_metric(self, metric)
        how = {"threshold": threshold}
        tested = metric, check_correction(correction), alpha, min_score, how
        look = (vlim, cmap), kind, hemi, cut_coords, bg_img
        return view_map(self, name, values, *tested, *look)

    def confusion(self, region: str | int | None = None) -> DataFrame:
        """Return the confusion matrix of one region.

        Parameters
        ----------
        region : str, int or None
            The region, by its name or its number in the atlas; for searchlights the
            centre, by its number in `positions`. None: the only one.

        Returns
        -------
        table : pandas.DataFrame, shape (c, c)
            Number of trials by true class (rows) and predicted class (columns). Equal
            to ``result.metrics["confusion_matrix"]``, but also available if that was
            not in `scoring`.

        Raises
        ------
        ValueError
            If there is no such region, or if it was not decoded; if trials are in
            several test sets and the confusion matrix was not in `scoring`.

        Examples
        --------
        >>> import numpy as np
        >>> from mvpa_kfda import decode_regions
        >>> rng = np.random.default_rng(0)
        >>> y = np.tile(["face", "house", "tool"], 10)
        >>> X = rng.normal(size=(30, 6)) + 2 * (y == "face")[:, None]
        >>> table = decode_regions(X, y).confusion()
        >>> table.loc["house"].to_dict()  # predictions for the houses
        {'face': 0, 'house': 5, 'tool': 5}
        """
        import pandas as pd  # slow to import, and only tables need it

        position, name = self._position_of(region), "confusion_matrix"
        if self.parameters.get("warped"):
            raise ValueError(
                "Warped maps have no predictions. Ask the result that was warped."
            )
        rows = np.concatenate(self.tests)
        if name in self.metrics:
            counts = self.metrics[name][position]
        elif len(np.unique(rows)) < len(rows):
            raise ValueError(
                "Trials are in several test sets, and only one prediction of each was "
                "kept. Run the analysis again with scoring=['accuracy', "
                "'confusion_matrix']."
            )
        else:
            counts = np.zeros((len(self.classes),) * 2, int)
            np.add.at(counts, (self.y[rows], self.predicted[position, rows]), 1)
        return pd.DataFrame(
            counts.astype(int),
            index=pd.Index(self.classes, name="true"),
            columns=pd.Index(self.classes, name="predicted"),
        )

    def _position_of(self, region):
        """The position of a region, or of the only one; it must be decoded."""
        is_only = region is None and len(self.positions) == 1
        position = 0 if is_only else self.places.position(region, "region")
        if not self.decoded[position]:
            raise ValueError(f"Nothing could be decoded {self.places.at(position)}.")
        return position

    def peaks(
        self,
        correction: CorrectionName = "max",
        *,
        alpha: float = 0.05,
        metric: str | None = None,
        min_distance: float = 8.0,
        min_score: float | None = None,
    ) -> DataFrame:
        """Return a table of peaks among the significant positions.

        In volumes, peaks are those of `nilearn.reporting.get_clusters_table`: at most
        four per cluster, in the middle of areas of equal scores. On surfaces, in CIFTI
        files and for features, they are positions with no higher neighbour. All
        significant regions are listed. Clusters are significant positions connected by
        `adjacency`; voxels, by their faces.

        Parameters
        ----------
        correction : str
            Correction of the p-values, as in `pvalues`.
        alpha : float
            Positions with p <= alpha are significant.
        metric : str or None
            Name of the metric; None takes the first scalar one.
        min_distance : float
            Minimum distance between peaks of one cluster, in mm.
        min_score : float or None
            Without permutations, or instead of p <= alpha: use positions with at least
            this score.

        Returns
        -------
        table : pandas.DataFrame
            One row per peak: its position (``x``, ``y``, ``z`` in mm; ``hemisphere``
            and ``vertex``; ``region``; ``feature``; ``parcel``; in CIFTI files
            ``structure``, ``vertex``, -1 for a voxel, and coordinates in mm),
            ``score``, with permutations ``p`` (uncorrected) and ``p_<correction>``, the
            number of its ``cluster``, and the size of the whole cluster:
            ``cluster_size_mm3`` in a volume, else ``cluster_size``, a number of
            positions. Clusters, and peaks within a cluster, are sorted by their highest
            scores.

        Raises
        ------
        ValueError
            If `alpha` is not between 0 and 1, if the metric or the correction is
            unknown, or without both permutations and `min_score`.
        """
        return peak_table(self, correction, alpha, metric, min_distance, min_score)

    plot = figure_method(plot_volume)
    plot_confusion = figure_method(plot_confusion)
    plot_patterns = figure_method(plot_patterns)


# ----------------------------------------------------------------------------- peaks


def peak_table(result, correction, alpha, metric, min_distance, min_score):
    """Make a table of peaks, see `VolumeResult.peaks`."""
    import pandas as pd  # slow to import, and only tables need it

    check_positive("min_distance", min_distance, " It is in mm.")
    metric = shown_metric(result, metric)
    metric, correction = check_request(result, metric, correction, alpha)
    marked, p = find_marked(result, metric, correction, alpha, min_score)
    scores, space = result.metrics[metric], result.geometry
    peaks, clusters, sizes = find_peaks(
        space, result.favour(metric), marked, result.adjacency, min_distance
    )
    table = space.columns() | {"score": scores}
    if result.has_p:
        table["p"] = result.p_of_map("none", metric)
        if correction != "none":
            p = result.p_of_map(correction, metric) if p is None else p
            table[f"p_{correction.replace('-', '_')}"] = p
    table = {name: values[peaks] for name, values in table.items()}
    table["cluster"] = clusters
    if space.kind == "volume":
        table["cluster_size_mm3"] = sizes * space.voxel_size
    else:
        table["cluster_size"] = sizes
    return pd.DataFrame(table)


def find_peaks(space, scores, marked, pairs, min_distance):
    """Peaks of marked positions (V,), numbers and sizes of their clusters."""
    # Connected positions are a cluster. In a volume its peaks are those of nilearn's
    # get_clusters_table, four at most, elsewhere those that no neighbour surpasses, and
    # every region is one. Peaks come by cluster, the highest scores first.
    where = np.flatnonzero(marked)
    # From here on, the marked positions are all there are: they are numbered anew.
    edges = (np.cumsum(marked) - 1)[pairs[:, marked[pairs].all(axis=0)]]
    scores = scores[where]
    cluster = components(len(where), edges)
    sizes = np.bincount(cluster)
    if space.kind == "volume":
        grid = space.voxels[where], space.affine
        peaks = _volume_maxima(*grid, scores, cluster, min_distance)
    elif space.kind == "regions":
        peaks = np.arange(len(where))
    else:
        peaks = _graph_maxima(scores, edges)
    peaks = peaks[np.lexsort((peaks, -scores[peaks]))]
    if space.points is not None and space.kind != "regions":
        peaks = _spread(peaks, cluster, space.points[where], min_distance)
    # The clusters in the order of their highest peaks, which come first here.
    _, first = np.unique(cluster[peaks], return_index=True)
    rank = np.empty(len(sizes), dtype=int)
    rank[cluster[peaks[np.sort(first)]]] = np.arange(len(sizes))
    peaks = peaks[np.argsort(rank[cluster[peaks]], kind="stable")]
    return where[peaks], rank[cluster[peaks]] + 1, sizes[cluster[peaks]]


def _volume_maxima(voxels, affine, scores, cluster, min_distance):
    """The indices of the peaks and sub-peaks that nilearn finds in clusters."""
    if len(voxels) == 0:
        return np.empty(0, dtype=int)
    grid = np.zeros(voxels.max(axis=0) + 1, dtype=int)
    grid[tuple(voxels.T)] = cluster + 1
    index = np.full(grid.shape, -1)
    index[tuple(voxels.T)] = np.arange(len(voxels))
    peaks = []
    # One by one, on small images: nilearn goes through the whole image per cluster.
    for number, box in enumerate(ndimage.find_objects(grid), start=1):
        inside, place = grid[box] == number, index[box]
        if inside.size == 1:
            peaks.append(place.item())
            continue
        values = np.zeros(inside.shape)
        # Ranks, because scores may be negative, and zero is outside for nilearn.
        values[inside] = 1 + np.unique(scores[place[inside]], return_inverse=True)[1]
        start = [side.start for side in box]
        voxels_of_peaks = _nilearn_peaks(values, start, affine, min_distance)
        peaks.extend(place[tuple(voxels_of_peaks.T)])
    return np.array(peaks)


def _nilearn_peaks(values, start, affine, min_distance):
    """The voxels (n_peaks, 3) of nilearn's peaks of positive values.

    The values were cut out of an image from the voxel `start` on.
    """
    import nibabel
    from nilearn.reporting import get_clusters_table

    # A rim of zeros: plateaus that reach the border of the image are no peaks. Cut at
    # even voxels, plateaus have the same middle as in the whole image: 2.5 becomes 2.
    rim = 2 - np.array(start) % 2
    values = np.pad(values, [(width, 1) for width in rim])
    axes = np.zeros((4, 4))
    axes[:3, :3], axes[3, 3] = affine[:3, :3], 1
    img = nibabel.Nifti1Image(values.astype(np.float32), axes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of plateaus with a middle outside of them
        table = get_clusters_table(img, 0.5, min_distance=min_distance)
    places = table[["X", "Y", "Z"]].to_numpy(dtype=float)
    return np.rint(np.linalg.solve(affine[:3, :3], places.T).T).astype(int) - rim


def _graph_maxima(scores, edges):
    """One position of each set of equal scores that no neighbour surpasses."""
    i, j = edges
    plateau = components(len(scores), edges[:, scores[i] == scores[j]])
    surpassed = np.zeros(len(scores), dtype=bool)
    surpassed[plateau[i[scores[i] < scores[j]]]] = True
    surpassed[plateau[j[scores[j] < scores[i]]]] = True
    numbers, first = np.unique(plateau, return_index=True)
    return first[~surpassed[numbers]]


def _spread(peaks, cluster, points, min_distance):
    """Drop peaks that are too near to a higher one of their cluster; highest first."""
    chosen = {number: [] for number in cluster[peaks]}
    for i in peaks:
        higher = chosen[cluster[i]]
        # Places that are not known are far from all others.
        near = np.linalg.norm(points[higher] - points[i], axis=1) <= min_distance
        if not near.any():
            higher.append(i)
    return peaks[np.isin(peaks, np.concatenate([[], *chosen.values()]))]
