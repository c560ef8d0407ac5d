"""Results of decoding source estimates: over time, and over vertices and times."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from numpy.typing import NDArray

from ..data.sources import unpack_form
from ..inference.corrections import CorrectionName
from ..utils.axes import axes_of
from ..viz.sources import plot_sources
from .base import SubjectResult, SummariesMixin
from .dissimilarity import EvidenceMixin
from .epochs import OnsetMixin, TimeResult
from .fields import figure_method, result_kind
from .places import check_pairs
from .views import MAPS, make_source_estimate, map_of


@result_kind
class SourceResult(TimeResult):
    """Decoding from all sources together at each time, see :func:`decode_sources`.

    Parameters
    ----------
    sources : dict
        Description of the source estimates: ``kind`` ("surface", "volume" or "mixed"),
        ``vector`` (whether with orientations), ``vertices`` of each structure,
        ``subject``, names of the ``structures``, ``points`` in mm if known, and
        ``tstep``, the time between positions in seconds.
    pattern_maps : dict of str -> array, shape (n_times, n_patterns, n_features)
        Activation patterns in the unit of the estimates: "class", "class_folds" and
        "discriminant", see `patterns`. Empty unless the kernel is linear.

    Examples
    --------
    >>> import mne
    >>> import numpy as np
    >>> from mvpa_kfda import decode_sources
    >>> rng = np.random.default_rng(0)
    >>> y = rng.permutation(["face", "house"] * 20)
    >>> data = rng.normal(size=(40, 5, 4))  # trials, vertices, times
    >>> data[y == "house", 1, 2:] += 3
    >>> vertices = [np.array([3, 8]), np.array([0, 4, 9])]  # of both hemispheres
    >>> stcs = [mne.SourceEstimate(each, vertices, 0.0, 0.1) for each in data]
    >>> result = decode_sources(stcs, y, n_permutations=99, random_state=0)
    >>> result.times[result.pvalues("max") <= 0.05]
    array([0.2, 0.3])
    >>> result.patterns()["house"].data.argmax(axis=0)[2:]  # a source estimate
    array([1, 1])
    """

    sources: dict[str, Any]

    #: Patterns are those of the sources.
    _no_places: ClassVar[str] = ""

    def patterns(
        self,
        kind: Literal["class", "discriminant"] = "class",
        *,
        average: Literal["full", "folds"] = "full",
    ) -> dict[str, Any]:
        """Return the activation patterns [1]_ as source estimates.

        Parameters
        ----------
        kind : {"class", "discriminant"}
            "class": how the signal of each class differs from the mean of all trials,
            as far as the model sees it. "discriminant": how the signal changes with
            the score of each discriminant, the most discriminant one first. A unit of
            the score is about the square root of n_trials within-class standard
            deviations, and its sign is free: the largest value of each map is positive.
        average : {"full", "folds"}
            The patterns of a model of all (training) trials, or the mean over the
            models of all folds, each fitted to its training trials ("class" only).

        Returns
        -------
        patterns : dict of str -> mne.SourceEstimate or of another kind
            One per class, by its label, or "discriminant 1" and so on: of the same kind
            and unit as the decoded estimates, with orientations for vector estimates.
            ``patterns["face"].plot()`` draws MNE-Python's figure.

        Raises
        ------
        ValueError
            If the result holds no patterns, if a name is unknown, or for "discriminant"
            if trials were regrouped (``n_repeats``).

        References
        ----------
        .. [1] Haufe, S., et al. (2014). On the interpretation of weight vectors of
           linear models in multivariate neuroimaging. NeuroImage, 87, 96-110.
        """
        maps, labels = self._chosen_patterns(kind, average)
        form, tstep = unpack_form(self.sources), self.sources["tstep"]
        return {
            label: form.make(maps[:, i].T, self.times[0], tstep, form.vector)
            for i, label in enumerate(labels)
        }


@result_kind
class SourceTimeResult(
    OnsetMixin,
    SummariesMixin,
    EvidenceMixin,
    SubjectResult[NDArray],
):
    """Decoding around each vertex over time, see :func:`decode_sources`.

    Parameters
    ----------
    vertices : array of str, shape (n_vertices,)
        The centre vertices of the neighbourhoods: structure and number, such as "lh
        1234".
    times : array, shape (n_times,)
        Time points in seconds.
    adjacency : array of int, shape (2, n_pairs)
        Pairs of neighbouring vertices, each once, as indices into `vertices`: those of
        :func:`mne.spatial_src_adjacency`. They define clusters and do not depend on the
        radius.
    sources : dict
        Description of the source estimates: ``kind`` ("surface", "volume" or "mixed"),
        ``vector`` (whether with orientations), ``vertices`` of each structure,
        ``subject``, names of the ``structures``, ``points`` (n_vertices, 3) in mm, in
        the frame of the source space, and ``tstep``, the time between positions in
        seconds.
    parameters : dict
        The arguments of the analysis; ``parameters["null"]`` is "full", "max" or, if
        ``null="auto"`` did not keep all permuted maps, "stream".

    Examples
    --------
    >>> import mne
    >>> import numpy as np
    >>> from mvpa_kfda import decode_sources
    >>> sphere = {"sphere": (0, 0, 0, 0.09), "verbose": False}
    >>> src = mne.setup_volume_source_space(pos=40.0, **sphere)
    >>> vertices = [src[0]["vertno"]]
    >>> rng = np.random.default_rng(0)
    >>> y = rng.permutation(["face", "house"] * 20)
    >>> data = rng.normal(size=(40, len(vertices[0]), 3))  # trials, vertices, times
    >>> data[y == "house", 5, 2] += 5
    >>> stcs = [mne.VolSourceEstimate(each, vertices, 0.0, 0.1) for each in data]
    >>> options = {"src": src, "radius": 40.0, "n_permutations": 99, "random_state": 0}
    >>> result = decode_sources(stcs, y, **options)
    >>> result.pvalues("max")[5] <= 0.05
    array([False, False,  True])
    >>> type(result.to_stc("p")).__name__
    'VolSourceEstimate'
    """

    axes: ClassVar[dict[str, str]] = axes_of("vertices", "times")
    keeps_condensed: ClassVar[bool] = True

    vertices: NDArray
    times: NDArray
    adjacency: NDArray
    sources: dict[str, Any]

    def __post_init__(self):
        """Normalize the arrays and check that their shapes belong together."""
        super().__post_init__()
        n = len(self.vertices)
        check_pairs(self.adjacency, n, "vertices")
        n_sources = unpack_form(self.sources).n_vertices
        if n_sources != n:
            raise ValueError(
                f"A result of {n} vertices needs sources of as many; got {n_sources}."
            )
        self._check_summaries(self.shape, f"a map of {self.shape}")

    def to_stc(
        self,
        name: str | None = None,
        *,
        metric: str | None = None,
        correction: CorrectionName = "none",
        threshold: float = 0.05,
    ) -> Any:
        """Return a source estimate of scores or p-values.

        ``result.to_stc().plot()`` draws MNE-Python's three-dimensional figure.

        Parameters
        ----------
        name : str or None
            The map to return. None: the scores of the first scalar metric, or of
            `metric`. The name of a metric: its scores. "p": p-values. "neglog10p":
            their -log10. "z": the normal deviates that p is the upper tail of; p = 1,
            which has none, is taken as P / (P + 1). "chance_difference": score minus
            chance level. "lambda", "degrees_of_freedom": values of the penalty,
            averaged over folds that have their own (geometric mean for lambda).
        metric : str or None
            The metric of the p-values and of the difference; None takes the first.
        correction : str
            Correction of the p-values, as in `pvalues`.
        threshold : float
            Cluster-forming threshold (a p-value), only for "cluster" and
            "cluster-size".

        Returns
        -------
        stc : mne.SourceEstimate, VolSourceEstimate or MixedSourceEstimate
            Of the same kind, vertices and subject as the decoded estimates, with one
            value per vertex and time; the times are those of the result.

        Raises
        ------
        ValueError
            If there is no such map, or as in `pvalues`.
        """
        tested = {"metric": metric, "correction": correction, "threshold": threshold}
        _, values = map_of(self, name, "to_stc", MAPS, **tested)
        return make_source_estimate(self, values)

    plot = figure_method(plot_sources)
