"""The result of decoding images: a score at every voxel, vertex, region or feature."""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from . import volume_plots
from ._inference.clusters import adjacency_among
from ._peaks import peak_table
from ._results.base import _Result
from ._results.space import unpack_space
from ._results.summarised import WithSummaries, p_values_where
from ._results.volume_images import make_image
from .inference import check_correction


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class VolumeResult(WithSummaries, _Result):
    """Decoding in many places of a brain, see `searchlight` and `decode_regions`.

    A position is the centre of a searchlight, a region, or a feature. Positions where
    nothing could be decoded, such as voxels outside of the brain, have NaN for their
    scores and p-values, and are not counted in any correction.

    Parameters
    ----------
    positions : array of int, shape (V,)
        Numbers of the positions, 0 to V - 1.
    space : dict
        Where the positions are; `geometry` unpacks it.
    adjacency : array of int, shape (2, n_pairs)
        Pairs of neighbouring positions, each once, which make up clusters.
    n_features : array of int, shape (V,)
        Number of features that were decoded together at every position, e.g. the
        voxels of its sphere; 0 where nothing could be decoded.
    metrics : dict of str -> array, shape (V,)
        Name -> score of the observed labels. The confusion matrix is (V, c, c): true
        classes in rows, predicted ones in columns.
    nulls : dict of str -> array, shape (P, V)
        Name -> scores under permuted labels, in single precision. Empty if only a
        summary was kept.
    null_summaries : dict of str -> dict
        Name -> what was kept instead, see `mvpa_kfda.inference.NullSummary`; of the
        decoded positions only.
    chances : dict of str -> float
        Name -> chance level, NaN where there is none.
    classes : array, shape (c,)
        The labels of the classes.
    y : array of int, shape (n,)
        Class of every trial, an index into `classes`.
    groups : array, shape (n,), or None
        Group of every trial.
    predicted : array of int, shape (V, n)
        Predicted class of every trial, an index into `classes`; -1 for a trial that
        was in no test set, and where nothing could be decoded.
    tests : tuple of arrays of int
        Row indices of every test set.
    parameters : dict
        The arguments of the analysis; ``parameters["null"]`` is "full", "max" or
        "stream".
    versions : dict of str -> str
        Versions of the packages that made the result.
    penalty : dict of str -> float or array
        What was recorded of the penalties: "lambda" and "degrees_of_freedom", and where
        they were tuned "kernel", "grid", "scale" and "criterion"; see `lambdas`.
    members : array of int, shape (n, k), or None
        The trials that were averaged, where pseudo-trials take the place of trials.

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
    0  8.0   0.01             192.0
    >>> result.to_img("p").get_fdata().ravel().round(2)[2:]
    array([0.01, 0.01, 0.01])
    """

    axes: ClassVar[dict] = {"positions": "position"}

    positions: np.ndarray
    space: dict
    adjacency: np.ndarray
    n_features: np.ndarray

    def __post_init__(self):
        """Normalize the arrays and check that their shapes belong together."""
        for name in ("adjacency", "n_features"):
            object.__setattr__(self, name, np.asarray(getattr(self, name)))
        super().__post_init__()
        n, pairs = len(self.positions), self.adjacency
        if self.geometry.n_positions != n or self.n_features.shape != (n,):
            raise ValueError(
                f"A result of {n} positions needs a space of as many and one number "
                f"of features for each; got {self.geometry.describe()} and n_features "
                f"of shape {self.n_features.shape}."
            )
        known = pairs.dtype.kind in "iu" and ((pairs >= 0) & (pairs < n)).all()
        if pairs.ndim != 2 or len(pairs) != 2 or not known:
            raise ValueError(
                f"adjacency must have shape (2, n_pairs) and hold indices of the {n} "
                f"positions; got shape {pairs.shape}, dtype {pairs.dtype}."
            )
        self._check_decoded()

    def _check_decoded(self):
        """Raise a ValueError unless there are scores just where something was decoded.

        Anything else would be counted wrongly in the corrections.
        """
        for name in filter(self._is_scalar, self.metrics):
            if not np.array_equal(np.isnan(self.metrics[name]), ~self.decoded):
                raise ValueError(
                    f"The metric {name!r} must be NaN where n_features is 0, and only "
                    "there."
                )
        n_decoded = np.count_nonzero(self.decoded)
        for name in self.null_summaries:
            if self._summary(name).exceedances.shape != (n_decoded,):
                raise ValueError(
                    f"The summary of {name!r} does not fit a result with {n_decoded} "
                    "decoded positions."
                )

    @cached_property
    def geometry(self):
        """Where the positions are: voxels, vertices, regions or plain features.

        An object with `n_positions`, `columns()` (of a table) and `to_img(values)`,
        which makes an image of one value per position. In volumes it has the `mask`
        and the `affine`, on surfaces `coordinates`, `faces` and `mask` by hemisphere.
        """
        return unpack_space(self.space)

    @property
    def coordinates(self):
        """Places of the positions in mm, (V, 3); None if they have none."""
        return self.geometry.points

    @property
    def decoded(self):
        """Where something could be decoded, (V,) of bool."""
        return self.n_features > 0

    def pvalues(
        self, correction="none", *, metric=None, threshold=0.05, alternative="greater"
    ):
        """Compute permutation p-values.

        Uncorrected, p = (1 + b) / (1 + P), where b of the P permutations score as high
        as the observed labels or higher (Phipson & Smyth, 2010).

        Parameters
        ----------
        correction : str
            Correction for testing many positions: "none", "max", "max-step-down",
            "bonferroni", "fdr", "fdr-by", "cluster", "cluster-size" or "tfce", which
            `mvpa_kfda.inference` describes. Clusters are connected by `adjacency`. The
            p-values of clusters are about whole clusters, and "tfce" may mark positions
            without an effect next to one that has. "cluster" and "tfce" need a run with
            ``null="full"`` or ``"stream"``; "cluster-size", "max-step-down" and other
            alternatives than "greater" need ``"full"``.
        metric : str or None
            Name of the metric; None takes the first.
        threshold : float
            p-level that forms the clusters; with ``null="stream"`` it is 0.05.
        alternative : {"greater", "less", "two-sided"}
            Which scores are tested for: above those of permuted labels, below them, or
            further from their mean than they are.

        Returns
        -------
        p : array, shape (V,)
            One p-value per position, NaN where nothing could be decoded.

        Raises
        ------
        ValueError
            If the metric or the correction is unknown, without permutations, or if
            the correction needs more of the null than was kept.
        """
        metric = self._scalar_metric(metric)
        key = metric, check_correction(correction), threshold, alternative
        if key not in self._p_values:  # TFCE of all permuted maps takes minutes
            self._p_values[key] = self._compute_p(*key)
        return self._p_values[key].copy()

    @cached_property
    def _p_values(self):
        """The p-values that were asked for before."""
        return {}

    def _compute_p(self, metric, correction, threshold, alternative):
        """Compute the p-values (V,) of a metric."""
        if metric in self.null_summaries:
            null = self._summary(metric)
        elif len(self.nulls.get(metric, ())) and not self.decoded.all():
            null = self.nulls[metric]
        else:
            options = {"threshold": threshold, "alternative": alternative}
            return super().pvalues(correction, metric=metric, **options)
        return p_values_where(
            self.decoded,
            self.metrics[metric],
            null,
            correction,
            alternative,
            adjacency=self._adjacency(),
            threshold=threshold,
        )

    def _adjacency(self):
        """Return which of the decoded positions are neighbours."""
        where = np.flatnonzero(self.decoded)
        return adjacency_among(self.adjacency, len(self.positions), where)

    def _columns(self):
        """Return the columns of a table that say where every position is."""
        return self.geometry.columns() | {"n_features": self.n_features}

    def _worded_positions(self):
        """Word the positions of the map."""
        text, n_decoded = self.geometry.describe(), np.count_nonzero(self.decoded)
        if n_decoded < len(self.positions):
            text += f", {n_decoded} of them decoded"
        return [text]

    def to_img(self, name=None, *, metric=None, correction="none", threshold=0.05):
        """Make an image of scores or p-values.

        Parameters
        ----------
        name : str or None
            What the image shows. None: the scores of the first metric that is one
            number per position, or of `metric`. The name of a metric: its scores.
            "p": p-values. "neglog10p": their -log10. "z": the normal deviates that p
            is the upper tail of; p = 1, which has none, is taken as P / (P + 1).
            "chance_difference": score minus chance level. "n_features": how many
            features were decoded together. "lambda", "degrees_of_freedom": what came
            out for the penalty; of a tuned one the mean over folds (of lambda the
            geometric one).
        metric : str or None
            The metric of the p-values and of the difference; None takes the first.
        correction : str
            Correction of the p-values, as in `pvalues`.
        threshold : float
            As in `pvalues`.

        Returns
        -------
        img : nibabel.Nifti1Image or nilearn.surface.SurfaceImage
            On the grid of the mask, or on its meshes, in single precision ("p" in
            double precision, so that p <= 0.05 stays so). NaN where nothing could be
            decoded; 0 outside of the mask, or 1 for "p". Regions are painted with
            their value.

        Raises
        ------
        ValueError
            If there is no such map, if positions have no place in a brain, or as in
            `pvalues`.
        """
        return make_image(self, name, metric, correction, threshold)

    def peaks(
        self,
        correction="max",
        *,
        alpha=0.05,
        metric=None,
        min_distance=8.0,
        threshold=None,
    ):
        """Make a table of the peaks of the significant positions.

        In a volume the peaks are those of `nilearn.reporting.get_clusters_table`: at
        most four per cluster, in the middle of areas of equal scores. On surfaces and
        for features they are positions that no neighbour surpasses. Of regions all
        significant ones are listed. Clusters are significant positions connected by
        `adjacency`; voxels, by their faces.

        Parameters
        ----------
        correction : str
            Correction of the p-values, as in `pvalues`.
        alpha : float
            Positions with p <= alpha are significant.
        metric : str or None
            Name of the metric; None takes the first that is one number per position.
        min_distance : float
            Peaks of one cluster are further apart than this, in mm.
        threshold : float or None
            Without permutations, or in place of p <= alpha: positions with scores of
            at least this count.

        Returns
        -------
        table : pandas.DataFrame
            One row per peak: where it is (``x``, ``y``, ``z`` in mm; ``hemisphere``
            and ``vertex``; ``region``; ``feature``), ``score``, with permutations
            ``p`` (uncorrected) and ``p_<correction>``, the number of its ``cluster``,
            and the size of the whole cluster: ``cluster_size_mm3`` in a volume, else
            ``cluster_size``, a number of positions. Clusters come in the order of
            their highest scores, and so do peaks within a cluster.

        Raises
        ------
        ValueError
            If `alpha` is not between 0 and 1, if the metric or the correction is
            unknown, or without permutations if no threshold is given.
        """
        return peak_table(self, correction, alpha, metric, min_distance, threshold)

    def plot(
        self,
        kind=None,
        *,
        metric=None,
        correction="max",
        alpha=0.05,
        threshold=None,
        views=None,
        cut_coords=None,
        bg_img=None,
        vlim=None,
        cmap=None,
        show=False,
    ):
        """Plot the scores in the brain, or as bars.

        Parameters
        ----------
        kind : str or None
            "stat_map": slices of the brain. "glass_brain": what is significant, seen
            through the brain, which must be in MNI space; without permutations and
            threshold, all that is above chance. "surface": the meshes of the result.
            "bar": one row per region or feature, a curve if there are many. None
            takes "stat_map" in a volume, "surface" on a surface, else "bar".
        metric : str or None
            Name of the metric; None takes the first that is one number per position.
        correction : str
            Correction of the p-values for testing many positions.
        alpha : float
            Positions with p <= alpha are outlined or marked.
        threshold : float or None
            In place of that, mark the positions that score as much.
        views : str, sequence of str, or None
            What nilearn calls `display_mode` on slices and on glass brains ("ortho",
            "z", "mosaic", "lyrz", ...), and the views of a surface. None chooses.
        cut_coords : int, sequence of float, or None
            Where to cut slices, in mm, or how many. None cuts through the highest
            score, that of a significant voxel if there is one.
        bg_img : image or None
            What is drawn behind the scores: an image of the brain, or a surface image
            of the depth of its folds. None takes nilearn's MNI template where the
            voxels fit it, else the shape of what was decoded; on a surface, its
            folds.
        vlim : tuple of float or None
            Scores at the two ends of the colors; None makes them symmetric about
            chance.
        cmap : str or None
            A color map of matplotlib.
        show : bool
            Show the figure at once.

        Returns
        -------
        figure : matplotlib Figure
            Save it with ``figure.savefig("scores.png")``.
        """
        return volume_plots.plot_volume(
            self,
            kind,
            metric=metric,
            correction=correction,
            alpha=alpha,
            threshold=threshold,
            views=views,
            cut_coords=cut_coords,
            bg_img=bg_img,
            vlim=vlim,
            cmap=cmap,
            show=show,
        )
