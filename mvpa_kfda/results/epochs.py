"""Results of one set of features, and of epochs and source estimates over time.

Results are frozen objects that hold everything needed to redo the analysis.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from ..data.sources import unpack_form
from ..inference.corrections import CORRECTIONS, CorrectionName, check_correction
from ..inference.null import Alternative
from ..metrics.auc import Roc, make_roc
from ..utils.axes import axes_of
from ..utils.checks import check_share, counted, quoted
from ..viz.confusion import plot_recall
from ..viz.diagnostics import (
    plot_flexibility,
    plot_predictions,
    plot_roc,
    plot_tuning,
)
from ..viz.maps import (
    plot_generalization,
    plot_sensors,
    plot_sources,
    plot_time_frequency,
)
from ..viz.null import plot_null
from ..viz.time import plot_time
from .base import Scores, SubjectResult, SummariesMixin
from .dissimilarity import EvidenceMixin
from .fields import figure_method, record, result_kind
from .patterns import PatternsMixin, unpack_info
from .places import check_pairs
from .views import MAPS, make_source_estimate, map_of

if TYPE_CHECKING:
    from mne import Info


#: The corrections by which each significant time is shown to have an effect.
_ALLOWED = [name for name, known in CORRECTIONS.items() if known.of_positions]


class OnsetMixin:
    """A result with `times`; comes before `SubjectResult` as a base."""

    def onset(
        self,
        correction: Literal[
            "max", "max-step-down", "bonferroni", "holm", "cluster-depth"
        ] = "max",
        *,
        metric: str | None = None,
        alternative: Alternative = "greater",
        alpha: float = 0.05,
    ) -> float:
        """Return the first significant time.

        There is an effect by then, with an error rate of `alpha` across all times. This
        is not the time when the effect begins: with more trials or a stronger effect,
        earlier times become significant, and smoothing, filters and windows (whose time
        is their centre) shift it. It is therefore unsuitable for comparing conditions
        or people. For several subjects, `bootstrap_latency` estimates onsets with
        intervals.

        Parameters
        ----------
        correction : {"max", "max-step-down", "bonferroni", "holm", "cluster-depth"}
            The correction for testing many times. "cluster-depth" is more sensitive to
            sustained effects, and needs a time course whose clusters begin and end
            within the window [2]_. Other corrections of `pvalues` are not allowed,
            since time points they mark need not have an effect: a cluster is
            significant as a whole [1]_.
        metric : str or None
            Name of the metric; None takes the first.
        alternative : {"greater", "less", "two-sided"}
            Whether to test for scores above those of permuted labels, below them, or
            further from their mean. Decoding usually tests for "greater".
        alpha : float
            A time with p <= alpha is significant.

        Returns
        -------
        onset : float
            The first time, in seconds, at which the score (of any frequency or sensor)
            is significant. NaN if there is none.

        Raises
        ------
        ValueError
            If the correction is not one of these, if `alpha` is not between 0 and 1,
            or as in `pvalues`.

        References
        ----------
        .. [1] Sassenhagen, J., & Draschkow, D. (2019). Cluster-based permutation tests
           of MEG/EEG data do not establish significance of effect latency or location.
           Psychophysiology, 56(6), e13335.
        .. [2] Frossard, J., & Renaud, O. (2022). The cluster depth tests: Toward
           point-wise strong control of the family-wise error rate in massively
           univariate tests with application to M/EEG. NeuroImage, 247, 118824.
        """
        check_share("alpha", alpha)
        correction = check_correction(correction)
        if correction not in _ALLOWED:
            raise ValueError(
                f"There is no onset with correction={correction!r}: it does not show "
                "an effect at every single time that it marks, and the first one may "
                f"have none. Use one that does: {quoted(_ALLOWED)}."
            )
        p = self.pvalues(correction, metric=metric, alternative=alternative)
        others = tuple(k for k, name in enumerate(self.axes) if name != "times")
        times = self.times[(p <= alpha).any(axis=others)]
        return float(times.min()) if len(times) else np.nan


@record
class SecondTestMixin:
    """A result that may be tested twice; comes before `SubjectResult` as a base.

    Parameters
    ----------
    second_scores : dict of str -> array, shape (positions...)
        Name -> scores of the observed labels in the second test of time generalization,
        where they are not those in `metrics`, see `GeneralizationResult.pvalues`.
    second_nulls : dict of str -> array, shape (P, positions...)
        Name -> scores of permuted labels in the second test.
    """

    second_scores: dict[str, NDArray] = field(default_factory=dict)
    second_nulls: dict[str, NDArray] = field(default_factory=dict)

    def __post_init__(self):
        """Normalize the arrays and check that their shapes belong together."""
        super().__post_init__()
        for first, second in _OF_BOTH_TESTS.items():
            shapes = {n: _shape_of(each) for n, each in self._kept(first).items()}
            of_second = self._kept(second)
            wrong = [n for n, x in of_second.items() if shapes.get(n) != _shape_of(x)]
            if wrong:
                raise ValueError(
                    f"What is kept of the second test of a {type(self).__name__} must "
                    f"have the names and shapes of the first, {shapes}; {wrong[0]!r} "
                    "has not."
                )


#: What is kept of the first test -> of the second.
_OF_BOTH_TESTS = {
    "metrics": "second_scores",
    "nulls": "second_nulls",
    "null_summaries": "second_summaries",
}


@result_kind
class DecodingResult(EvidenceMixin, SubjectResult[float]):
    """Decoding of one set of features, see :func:`cross_validate`.

    Parameters
    ----------
    metrics : dict of str -> float or array
        Name -> score of the observed labels. The confusion matrix is (c, c): true
        classes in rows, predicted ones in columns.
    class_scores : array, shape (n, c)
        Score of each class for each trial; the class with the highest is predicted.

    Examples
    --------
    >>> import numpy as np
    >>> from mvpa_kfda import cross_validate
    >>> rng = np.random.default_rng(0)
    >>> y = rng.permutation(["cat", "dog"] * 20)
    >>> X = rng.normal(size=(40, 5)) + (y == "dog")[:, None]
    >>> result = cross_validate(X, y, n_permutations=99, random_state=0)
    >>> result.predictions.shape
    (40,)
    >>> result.pvalues() <= 0.05
    True
    """

    class_scores: NDArray

    def roc(self, positive: Any = None) -> Roc:
        """Compute the ROC curve of one class against the rest.

        Scores are ranked across the trials of all test sets: with two classes, the
        difference of the class scores; with more, the posterior probability of the
        class, as in :meth:`KernelFDA.predict_proba`. The models of different folds
        differ slightly in scale, so the area differs from ``metrics["roc_auc"]``, the
        mean over test sets. A trial in several test sets counts once, with its mean
        class scores; trials in no test set are left out.

        Parameters
        ----------
        positive : label or None
            The positive class. None: the second of two classes in sorted order;
            required with more than two classes.

        Returns
        -------
        roc : Roc
            ``.fpr``, ``.tpr``, ``.thresholds``, as in
            :func:`sklearn.metrics.roc_curve`, ``.auc`` and ``.positive``.

        Raises
        ------
        ValueError
            If `positive` is not a class, or is omitted with more than two classes, or
            if all or none of the tested trials belong to the positive class.

        Examples
        --------
        >>> import numpy as np
        >>> from mvpa_kfda import cross_validate
        >>> rng = np.random.default_rng(0)
        >>> y = rng.permutation(["cat", "dog"] * 20)
        >>> X = rng.normal(size=(40, 5)) + 1.5 * (y == "dog")[:, None]
        >>> cross_validate(X, y).roc()
        <Roc: dog, AUC 0.978>
        """
        return make_roc(self, positive)

    plot = figure_method(plot_null)
    trial_figures: ClassVar[tuple[str, ...]] = ("plot_roc",)

    plot_roc = figure_method(plot_roc)
    plot_tuning = figure_method(plot_tuning)


@result_kind
class TimeResult(
    SecondTestMixin,
    OnsetMixin,
    PatternsMixin,
    EvidenceMixin,
    SubjectResult[NDArray],
):
    """Decoding at each time point, see :func:`decode_epochs`.

    Parameters
    ----------
    times : array, shape (n_times,)
        Time points in seconds.

    Examples
    --------
    >>> import mne
    >>> import numpy as np
    >>> from mvpa_kfda import decode_epochs
    >>> rng = np.random.default_rng(0)
    >>> y = rng.permutation(["face", "house"] * 10)
    >>> data = rng.normal(size=(20, 4, 6))  # trials, channels, times
    >>> data[y == "house", :, 3:] += 3
    >>> info = mne.create_info(4, sfreq=100.0, ch_types="eeg")
    >>> epochs = mne.EpochsArray(data * 1e-6, info, tmin=-0.03, verbose=False)
    >>> result = decode_epochs(epochs, y, cv=5, n_permutations=99, random_state=0)
    >>> result.scores.shape
    (6,)
    >>> result.times[result.pvalues("max") <= 0.05]
    array([0.  , 0.01, 0.02])
    >>> sorted(result.patterns())  # kernel="linear" is the default
    ['face', 'house']
    """

    axes: ClassVar[dict[str, str]] = axes_of("times")

    times: NDArray

    plot = figure_method(plot_time)
    plot_recall = figure_method(plot_recall)
    plot_tuning = figure_method(plot_flexibility)


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
class TimeFrequencyResult(
    OnsetMixin,
    PatternsMixin,
    EvidenceMixin,
    SubjectResult[NDArray],
):
    """Decoding of power at each frequency and time, see :func:`decode_epochs`.

    Parameters
    ----------
    freqs : array, shape (n_freqs,)
        Frequencies in Hz.
    times : array, shape (n_times,)
        Time points in seconds.
    pattern_maps : dict of str -> array, shape (n_freqs, n_times, m, n_channels)
        Activation patterns in units of the power, see `patterns`; empty unless the
        kernel is linear.

    Examples
    --------
    >>> import mne
    >>> import numpy as np
    >>> from mvpa_kfda import decode_epochs
    >>> rng = np.random.default_rng(0)
    >>> y = rng.permutation(["face", "house"] * 10)
    >>> power = rng.chisquare(4, size=(20, 4, 2, 5))  # trials, channels, freqs, times
    >>> power[y == "house", :, 1, 3:] *= 20
    >>> tfr = mne.time_frequency.EpochsTFRArray(
    ...     mne.create_info(4, sfreq=100.0, ch_types="eeg"),
    ...     power,
    ...     times=np.arange(-2, 3) / 100,
    ...     freqs=[10.0, 40.0],
    ... )
    >>> result = decode_epochs(tfr, y, cv=5, n_permutations=99, random_state=0)
    >>> (result.pvalues("max") <= 0.05).astype(int)
    array([[0, 0, 0, 0, 0],
           [0, 0, 0, 1, 1]])
    """

    axes: ClassVar[dict[str, str]] = axes_of("freqs", "times")
    pattern_axes: ClassVar[tuple[str, ...]] = ("freqs", "times")

    freqs: NDArray
    times: NDArray

    plot = figure_method(plot_time_frequency)


@result_kind
class SensorTimeResult(OnsetMixin, EvidenceMixin, SubjectResult[NDArray]):
    """Decoding from each sensor's neighbourhood over time, see :func:`decode_epochs`.

    Parameters
    ----------
    ch_names : array of str, shape (n_sensors,)
        The centre sensors of the neighbourhoods.
    times : array, shape (n_times,)
        Time points in seconds.
    adjacency : array of int, shape (2, n_pairs)
        Pairs of neighbouring sensors, each once, as indices into `ch_names`. A
        neighbourhood is a sensor and all its neighbours.
    info_fif : array of uint8, shape (n_bytes,)
        The sensors' types and positions, as the bytes of a FIF file; see `info`.

    Examples
    --------
    >>> import mne
    >>> import numpy as np
    >>> from mvpa_kfda import decode_epochs
    >>> rng = np.random.default_rng(0)
    >>> y = rng.permutation(["face", "house"] * 10)
    >>> data = rng.normal(size=(20, 4, 6))  # trials, channels, times
    >>> data[y == "house", 0, 4:] += 5
    >>> info = mne.create_info(["O1", "O2", "F3", "F4"], sfreq=100.0, ch_types="eeg")
    >>> epochs = mne.EpochsArray(data * 1e-6, info, tmin=-0.03, verbose=False)
    >>> pairs = np.array([[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 1, 1]])
    >>> result = decode_epochs(
    ...     epochs, y, sensors=pairs, cv=5, n_permutations=99, random_state=0
    ... )
    >>> (result.pvalues("cluster") <= 0.05).astype(int)
    array([[0, 0, 0, 0, 1, 1],
           [0, 0, 0, 0, 1, 1],
           [0, 0, 0, 0, 0, 0],
           [0, 0, 0, 0, 0, 0]])
    """

    axes: ClassVar[dict[str, str]] = axes_of("ch_names", "times")
    keeps_condensed: ClassVar[bool] = True

    ch_names: NDArray
    times: NDArray
    adjacency: NDArray
    info_fif: NDArray

    def __post_init__(self):
        """Normalize the arrays and check that their shapes belong together."""
        super().__post_init__()
        check_pairs(self.adjacency, len(self.ch_names), "sensors")

    @property
    def info(self) -> Info:
        """The sensors' types and positions, an `mne.Info`."""
        return unpack_info(self.info_fif)

    plot = figure_method(plot_sensors)


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


@result_kind
class GeneralizationResult(
    SecondTestMixin,
    PatternsMixin,
    SummariesMixin,
    EvidenceMixin,
    SubjectResult[NDArray],
):
    """Training at one time and testing at another, see :func:`generalize_epochs`.

    Parameters
    ----------
    train_times : array, shape (n_train_times,)
        Training times in seconds.
    test_times : array, shape (n_test_times,)
        Test times in seconds.
    second_scores : dict of str -> array, shape (n_train_times, n_test_times)
        Name -> scores of the observed labels in the second test, see `pvalues`, where a
        smaller penalty makes them differ from those in `metrics`.
    second_nulls : dict of str -> array, shape (P, n_train_times, n_test_times)
        Name -> scores of models of permuted labels against labels that stay, in the
        second test of a cross-validated map (but not with ``train_on``).
    second_summaries : dict of str -> dict
        Name -> what was kept of these instead, as in `null_summaries`.
    y : array of int, shape (n,)
        Class of each training trial, an index into `classes`.
    y_test : array of int, shape (n_test,)
        Class of each tested trial; equal to `y` unless separate trials or other labels
        were tested.
    predicted : array of int, shape (n_train_times, n_test_times, n_test)
        Predicted class of each tested trial, an index into `classes`; -1 for a trial
        that was in no test set.
    pattern_maps : dict of str -> array, shape (n_train_times, m, n_channels)
        Activation patterns of the models, see `patterns`.
    class_scores : array, shape (n_train_times, n_test, c), or None
        For the diagonal only: score of each class for each tested trial, from the
        models trained at the same time; NaN where that is not a test time. None without
        ``keep_class_scores=True``.
    parameters : dict
        The arguments of the analysis; ``parameters["mode"]`` is "plain", "same_trials"
        (other epochs of the same trials), "other_labels", "other_trials" or
        "cross_decoding" (``train_on``, fold by fold).

    Examples
    --------
    >>> import numpy as np
    >>> from mvpa_kfda import generalize_arrays
    >>> rng = np.random.default_rng(0)
    >>> y = rng.permutation(["face", "house"] * 30)
    >>> X = rng.normal(size=(60, 30, 6))  # trials, features, times
    >>> X[y == "house", :, 3:] += 0.6
    >>> result = generalize_arrays(X, y, n_permutations=99, random_state=0)
    >>> result.scores.shape
    (6, 6)
    >>> (result.pvalues("max") <= 0.05).astype(int)
    array([[0, 0, 0, 0, 0, 0],
           [0, 0, 0, 0, 0, 0],
           [0, 0, 0, 0, 0, 0],
           [0, 0, 0, 1, 1, 1],
           [0, 0, 0, 1, 1, 1],
           [0, 0, 0, 1, 1, 1]])
    """

    axes: ClassVar[dict[str, str]] = axes_of("train_times", "test_times")
    _n_scored_axes: ClassVar[int | None] = 1  # the diagonal
    pattern_axes: ClassVar[tuple[str, ...]] = ("train_times",)

    train_times: NDArray
    test_times: NDArray
    y_test: NDArray
    second_summaries: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self):
        """Normalize the arrays and check that their shapes belong together."""
        super().__post_init__()
        self._check_summaries(self.shape, f"a map of {self.shape}")

    def pvalues(
        self,
        correction: CorrectionName = "none",
        *,
        metric: str | None = None,
        threshold: float = 0.05,
        alternative: Alternative = "greater",
    ) -> NDArray:
        """Compute permutation p-values.

        Uncorrected, p = (1 + b) / (1 + P), where b of the P permutations score at least
        as high as the observed labels [1]_.

        In cross-validation two null hypotheses are tested; both have to be rejected, so
        p is the larger of their p-values.

        - Neither time carries information: the labels are permuted in both training
          and test data. Where training and test trials change roles, the scores of
          folds are dependent, and only this test preserves the dependence.
        - The training time carries none, but the test time may: only the training
          labels are permuted. A classifier trained on noise can separate the classes of
          a strong signal by chance, in the same way in all folds. Without this test
          such cells would be taken for generalization. With a large penalty it does so
          more often, so that models of this test, for observed and permuted labels,
          have no larger one than ``reg=0.3``, unless labels choose it. Where that
          changes scores, ``second_scores`` has those that are tested.

        A third hypothesis is that both times carry information in different codes. For
        it p is too small: of simulated data sets with 60 trials, 3 classes and 10
        features, 8% had p <= 0.05 with unrelated codes, and 49 to 57% with patterns
        that correlated by 0.5 (82 to 93% with 30 features). A model that transfers
        shows transfer, not that the two codes are the same.

        A correction for many cells holds for each of the two hypotheses. With "cluster"
        and "cluster-size", clusters are areas in which both tests exceed the threshold
        and the scores have the same sign. Each has the larger of its two p-values: its
        mass in a test, the sum of the scores standardised by that test's permutations,
        is compared with the largest mass of the same test in each permutation. These
        areas are outlined in figures and listed by `clusters`. With "tfce", the height
        of a cell is the lower of the two tests, and each test compares the result with
        the largest value of each of its permutations.

        With ``train_on`` no trial changes roles and test labels are never permuted:
        only the second test is made.

        If training and test data are the same epochs, the two hypotheses coincide on
        the diagonal, where the first test is exact; p-values there equal those of
        `decode_epochs`, unless the correction depends on the rest of the map. Diagonal
        cells are treated as above the second threshold and add to no mass of the second
        test, observed or permuted. With separate test trials, the second test is valid
        for both hypotheses.

        Parameters
        ----------
        correction : str
            Correction for testing all cells of the map: "none", "max", "max-step-down",
            "bonferroni", "holm", "fdr", "fdr-by", "cluster", "cluster-size" or "tfce",
            described in `mvpa_kfda.inference.corrections`. Clusters are areas of the
            map. "cluster" and "tfce" require an analysis with ``null="auto"`` or
            ``"full"``, "cluster-size" and "max-step-down" one with ``null="full"``.
        metric : str or None
            Name of the metric; None takes the first.
        threshold : float
            Cluster-forming threshold (a p-value), only for "cluster" and
            "cluster-size"; 0.05 if not all permuted maps were kept.
        alternative : {"greater", "less", "two-sided"}
            Whether to test for scores above those of permuted labels, below them, or
            further from their mean. Decoding usually tests for "greater". The others
            need ``null="full"``.

        Returns
        -------
        p : array, shape (n_train_times, n_test_times)
            One p-value per cell.

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
        options = {"threshold": threshold, "alternative": alternative}
        return super().pvalues(correction, metric=metric, **options)

    @property
    def _exempt(self):
        """The positions that are exempt from the second test, or None."""
        return exempt_cells(self.mode, self.train_times, self.test_times)

    @property
    def y_tested(self) -> NDArray:
        """Class of each tested trial, an index into `classes`."""
        return self.y_test

    def diagonal(self) -> TimeResult:
        """Return the scores of training and testing at the same time.

        Returns
        -------
        result : TimeResult
            At all times that are both training and test times; by default equal to the
            result of `decode_epochs`. It has no permutations if only a summary of the
            null was kept. For other labels or other epochs of the same trials, two
            tests have to reject, as in the map.

        Raises
        ------
        ValueError
            If no training time is a test time.
        """
        rows, columns = same_times(self.train_times, self.test_times)
        if len(rows) == 0:
            raise ValueError(
                "There is no diagonal: no training time is also a test time. Use "
                "result.scores[i, j], or windows at the same times."
            )
        parts, patterns = ["metrics", "nulls", "fold_metrics", "repeats"], {}
        if self.mode != "plain" and self.second_nulls:  # else there is one test
            parts += ["second_scores", "second_nulls"]
        if np.array_equal(self.y, self.y_test):  # or they are of other classes' trials
            patterns = {kind: maps[rows] for kind, maps in self.pattern_maps.items()}
        maps = {}
        for part in parts:
            # Permutations come before the cells, and folds and repeats after them.
            cells = (..., rows, columns) if part.endswith("nulls") else (rows, columns)
            maps[part] = {name: x[cells] for name, x in vars(self)[part].items()}
        same = ("chances", "classes", "tests", "trains", "members")
        same += ("parameters", "versions", "info_fif", "warnings")
        return TimeResult(
            times=self.train_times[rows],
            y=self.y_test,
            groups=None if self.tests_other_trials else self.groups,
            predicted=self.predicted[rows, columns],
            class_scores=None if self.class_scores is None else self.class_scores[rows],
            pattern_maps=patterns,
            **maps,
            **{name: vars(self)[name] for name in same},
        )

    plot = figure_method(plot_generalization)

    def title_parts(self) -> list[str]:
        """Return the parts of a figure's title: trials, classes, folds and draws.

        Returns
        -------
        parts : list of str
            Parts of a title, to be joined by commas.
        """
        trials, *parts = super().title_parts()
        if self.tests_other_trials:
            others = counted(self.n_tested, "other")
            trials = f"trained on {trials}, tested on {others}"
        return [trials, *parts]


@record
class _RegressionMap(SubjectResult[Scores]):
    """What the results of regression share: numbers in the place of classes.

    Parameters
    ----------
    metrics : dict of str -> array, shape (positions...)
        Name -> score of the observed values.
    nulls : dict of str -> array, shape (P, positions...)
        Name -> scores under permuted values.
    classes : array, shape (0,)
        Empty: there are none.
    y : array of float, shape (n,)
        The value of each trial.
    predicted : array of float, shape (positions..., n)
        Predicted value of each trial; NaN for a trial that was in no test set.
    members : None
        Regression does not average trials.
    """

    classes: NDArray = field(default_factory=lambda: np.empty(0))


@result_kind
class RegressionResult(_RegressionMap[float]):
    """Regression on one set of features, see :func:`regress`.

    Parameters
    ----------
    metrics : dict of str -> float
        Name -> score of the observed values.
    penalty : dict of str -> array
        "lambda" and "degrees_of_freedom", numbers, or (n_folds,) if each fold has its
        own penalty. If labels selected it, as with ``reg="auto"``, also "kernel"
        (n_folds,), the index of the selected one, "grid" (n_kernels, n_lambdas),
        "scale" (n_kernels,), the trace(K_c)/n that a float is relative to, and
        "criterion" (n_folds, n_kernels, n_lambdas), the squared error within the
        training sets. If each fold has its own matrix, "grid" and "scale" begin with
        (n_folds, ...).

    Examples
    --------
    >>> import numpy as np
    >>> from mvpa_kfda import regress
    >>> rng = np.random.default_rng(0)
    >>> y = rng.normal(size=40)
    >>> X = rng.normal(size=(40, 5)) + y[:, None]
    >>> result = regress(X, y, n_permutations=99, random_state=0)
    >>> result.predictions.shape
    (40,)
    >>> result.pvalues() <= 0.05
    True
    """

    plot = figure_method(plot_null)
    trial_figures: ClassVar[tuple[str, ...]] = ("plot_predictions",)

    plot_predictions = figure_method(plot_predictions)
    plot_tuning = figure_method(plot_tuning)


@result_kind
class TimeRegressionResult(OnsetMixin, _RegressionMap[NDArray]):
    """Regression at each time point, see :func:`decode_epochs`, :func:`decode_arrays`.

    Parameters
    ----------
    times : array, shape (n_times,)
        Time points in seconds.
    penalty : dict of str -> array
        "lambda" and "degrees_of_freedom", (n_times,), or (n_times, n_folds) if each
        fold has its own penalty. If labels selected it, as with ``reg="auto"``, also
        "kernel" (n_times, n_folds), the index of the selected one, "grid" (n_times,
        n_kernels, n_lambdas), "scale" (n_times, n_kernels), the trace(K_c)/n that a
        float is relative to, and "criterion" (n_times, n_folds, n_kernels, n_lambdas),
        the squared error within the training sets. If each fold has its own matrix,
        "grid" and "scale" begin with (n_times, n_folds, ...).

    Examples
    --------
    >>> import numpy as np
    >>> from mvpa_kfda import decode_arrays
    >>> rng = np.random.default_rng(0)
    >>> y = rng.normal(size=40)
    >>> X = rng.normal(size=(40, 4, 6))  # trials, features, times
    >>> X[:, :, 3:] += y[:, None, None]
    >>> result = decode_arrays(
    ...     X, y, task="regression", sfreq=10, n_permutations=99, random_state=0
    ... )
    >>> result.times[result.pvalues("max") <= 0.05]
    array([0.3, 0.4, 0.5])
    """

    axes: ClassVar[dict[str, str]] = axes_of("times")

    times: NDArray

    plot = figure_method(plot_time)
    plot_tuning = figure_method(plot_flexibility)


def same_times(train_times, test_times):
    """The rows and columns of the cells with equal times."""
    rounded = train_times.round(6), test_times.round(6)
    return np.intersect1d(*rounded, return_indices=True)[1:]


def exempt_cells(mode, train_times, test_times):
    """Where the second test of a map does not count, or None."""
    if mode != "plain":
        return None
    exempt = np.zeros((len(train_times), len(test_times)), dtype=bool)
    exempt[same_times(train_times, test_times)] = True
    return exempt


def _shape_of(null):
    """The shape of a null, or of the one that a summary stands for."""
    if isinstance(null, dict):
        return (null["n_permutations"], *np.shape(null["exceedances"]))
    return np.shape(null)
