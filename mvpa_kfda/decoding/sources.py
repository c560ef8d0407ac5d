"""Decoding of MNE-Python's source estimates."""

from __future__ import annotations

from collections.abc import Iterable
from os import PathLike
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import ArrayLike

from ..data.confounds import Confounds, read_confounds, read_train_on
from ..data.epochs import progress_wanted
from ..data.sources import SourceReader, find_source_neighbours, rescale
from ..inference.permutation import Permute
from ..kfda.arguments import CrossValidation, KernelLike, PenaltyLike, Preprocess
from ..kfda.models import resolve_method
from ..kfda.nystrom import Nystrom
from ..metrics.names import Scoring
from ..results.kinds import keeps_warnings
from ..results.places import sensor_time_adjacency
from ..results.sources import SourceResult, SourceTimeResult
from ..utils.checkpoint import digest, open_checkpoint
from ..utils.checks import Precision, Seed, check_jobs, check_option
from .analysis import decode, make_analysis
from .arrays import record_windows
from .positions import Rows, WindowPositions, cut_windows
from .repeating import Repeating
from .resume import check_checkpoint, describe_run, resumed_seed
from .sizes import NULLS, KeptNull, Maps, check_null

if TYPE_CHECKING:
    from mne import MixedSourceEstimate, SourceEstimate, SourceSpaces, VolSourceEstimate

    Estimate = SourceEstimate | VolSourceEstimate | MixedSourceEstimate


@keeps_warnings
def decode_sources(
    stcs: Iterable[Estimate],
    y: ArrayLike,
    *,
    src: SourceSpaces | str | PathLike[str] | None = None,
    radius: float | None = None,
    groups: ArrayLike | None = None,
    window: float | None = None,
    step: float | None = None,
    window_mode: Literal["mean", "concatenate"] = "mean",
    kernel: KernelLike = "linear",
    reg: PenaltyLike = "auto",
    cv: CrossValidation = None,
    scoring: Scoring = "accuracy",
    n_permutations: int = 0,
    permute: Permute = "auto",
    null: KeptNull = "auto",
    random_state: Seed = None,
    n_jobs: int | None = None,
    dtype: Precision = "float64",
    verbose: bool | str | int | None = None,
    checkpoint: str | PathLike[str] | None = None,
    n_components: int | None = None,
    approx: Nystrom | None = None,
    average: int | Literal["max"] | None = None,
    keep_class_scores: bool = False,
    preprocess: Preprocess = None,
    confounds: Confounds = None,
    train_on: ArrayLike | None = None,
    n_repeats: int = 1,
    equalize: bool = False,
    average_test: bool = True,
) -> SourceResult | SourceTimeResult:
    """Decode class labels from source estimates at every time, without retraining.

    All sources together are decoded at every time point, or with `src` and `radius` in
    a searchlight the neighbourhood of every vertex. A kernel Fisher discriminant
    analysis is cross-validated at each position, for the observed labels and for
    permuted ones. Folds and permutations are the same everywhere.

    Parameters
    ----------
    stcs : iterable of mne.SourceEstimate, one per trial
        A list, or a generator such as :func:`mne.minimum_norm.apply_inverse_epochs`
        returns with ``return_generator=True``, whose estimates are used up one by one.
        Also volume, mixed and vector estimates, of which every vertex has three
        features. All with the same vertices, times and subject.
    y : array_like, shape (n_trials,)
        Class labels: strings, whole numbers or booleans; two or more classes.
    src : mne.SourceSpaces | path | None
        The source space that the estimates were computed in, ``inverse["src"]``, or of
        morphed ones that of the subject they were morphed to; their vertices are found
        in it by number. For a searchlight, together with `radius`. None: all sources
        together.
    radius : float | None
        Radius of the neighbourhoods in mm: on a cortex the length of paths along the
        mesh, in volumes that of spheres. Hemispheres and volumes are never mixed.
    groups : array_like, shape (n_trials,) | None
        Runs, sessions or subjects: ``cv=None`` leaves out one at a time, splitters that
        use groups are given them, and `permute` respects them.
    window : float | None
        Length of a sliding window in seconds, rounded to samples. None: one sample.
    step : float | None
        Distance between windows in seconds, rounded to samples. None: one sample.
    window_mode : "mean" | "concatenate"
        Average the samples in a window, or use all of them as features.
    kernel : str | kernel object | callable | list of these
        How trials are compared: ``"linear"``, ``"rbf"`` (Gaussian), ``"polynomial"``,
        an object such as ``RBF(gamma=0.1)`` or ``GraphSmooth(adjacency)``, or a
        function ``f(X, Y) -> (n_x, n_y)``. A list of these, to choose from with a tuned
        `reg`.
    reg : float | str | penalty object
        The penalty. ``"auto"`` chooses it inside every training set, and again for
        every permutation, in closed form (see :doc:`/method`); ``"tuned"`` or
        :class:`Tuned` by cross-validation there. The others use no labels, and are
        faster. A float is relative: lambda = reg * trace(K_c) / n, with the centred
        kernel matrix K_c of all n trials, so that the unit of the features does not
        matter. :class:`Ridge` is absolute, :class:`Shrinkage` in units of the
        covariance's trace, :class:`DegreesOfFreedom` says how flexible the model is;
        ``"ledoit_wolf"`` and ``"oas"`` estimate the shrinkage, for linear kernels and
        trials that are independent (for single scans it is too small).
        Each time point has its own lambda.
    cv : None | int | splitter | iterable of (train, test)
        None: leave one group out when `groups` are given, else 10 folds. An int: that
        many folds of neighbouring trials, drawn without the labels; more where some
        training set would lack a class. Training sets may be any trials outside their
        test set; if some are not all of them, a relative `reg` and the width of a
        kernel are those of each training set. Test sets may overlap or miss trials. All
        permutations share the folds, unless the splitter looks at the labels
        (StratifiedKFold): then it is shown those of every permutation, which takes a
        model for each. A list of index arrays is shared by all.
    scoring : str | callable | list of these
        Metric name, or list of names, the first of which is in ``result.scores``:
        ``"accuracy"``, ``"balanced_accuracy"``, ``"roc_auc"``, ``"recall"``,
        ``"precision"``, ``"f1"``, ``"recall_macro"``, ``"precision_macro"``,
        ``"f1_macro"``, ``"kappa"``, ``"confusion_matrix"``. With two classes, recall,
        precision and F1 are those of the second class in sorted order, otherwise macro
        averages. The ROC AUC is the mean over test sets; all others are computed on the
        predictions pooled over them. A function ``f(y_true, y_pred, class_scores) ->
        float`` is a metric too: the mean of what it returns for each test set. With
        permutations it is slow.
    n_permutations : int
        Label permutations P for the null distribution; 0 for none. When fewer distinct
        ones exist, all of them are used. They are the same at every time point.
    permute : "auto" | "within_folds" | "within_groups" | "groups" | "free"
        What may be exchanged. ``"within_folds"``: trials of the same training and test
        sets (and group); ``"within_groups"``: trials of a group; ``"groups"``: whole
        groups; ``"free"``: all trials; ``"auto"``: what is valid for the folds and
        groups, whatever `n_permutations`, by the rules of
        :func:`~mvpa_kfda.inference.permutation.permute_labels`.
    null : "auto" | "full" | "max" | "stream"
        What to keep of the permuted maps, for each metric. ``"full"``: all scores, 4 P
        bytes for each position. ``"max"``: each map's largest score, and for each
        position how many permutations reach the observed score; enough for all p-values
        of ``alternative="greater"`` but those of "max-step-down", clusters and TFCE.
        ``"stream"``: these, and the largest cluster (threshold 0.05) and TFCE score of
        each map, by way of a temporary file of the size of ``"full"``. ``"auto"``:
        ``"full"`` up to 1 GiB, else ``"max"``.
    random_state : int | Generator | RandomState | None
        Seed of the permutations. None makes p differ from call to call; give a number,
        such as 0, and report it.
    n_jobs : int | None
        Number of workers, as in joblib: None is 1 (or what ``joblib.parallel_config``
        says), -1 all processors. The result does not depend on it. Starting workers
        takes about a second, so they pay off in longer runs.
    dtype : "float64" | "float32"
        Precision in which labels, observed and permuted, are processed. float32 is
        faster by up to a half, and may change predictions where two classes score about
        the same: hardly ever with two classes, in some percent of trials with many
        classes and a few features.
    verbose : bool | str | int | None
        True (or a level of INFO or below) shows how far the run is, by a bar, or in a
        log by a line now and then; False does not, None only for runs of more than a
        few seconds.
    checkpoint : None | str | path-like
        A file that keeps finished blocks of positions. The same call with the same file
        continues a run that was stopped at any moment, and ends with the same result.
        It is not deleted at the end.
    n_components : int | None
        Classify by the first discriminants only (reduced rank); None: by all c - 1 of c
        classes.
    approx : Nystrom | None
        Approximate the kernel with landmarks, for example ``Nystrom(200)``, so that no
        (n, n) matrix is made of many trials; None: take it as it is.
    average : int | "max" | None
        Average so many trials of one class, within test sets (and groups), into
        pseudo-trials that take the place of trials in all of the result. They are drawn
        with `random_state`; a remainder of fewer is left out. ``"max"``: as many as the
        smallest class has in any test set (and group).
    keep_class_scores : bool
        Keep the class scores of every trial, for correlating them with behaviour:
        ``result.class_scores``, ``.decision_values()`` and ``.probabilities()``. They
        take a number for every trial, class and position.
    preprocess : str | transformer | list of these | None
        Steps that every fold learns from its training trials, at each position by
        itself, and applies to its test trials: ``"zscore"`` (each feature),
        ``"pca"`` (components with 99 % of the variance), ``"whiten"`` (these with unit
        variance), a transformer of scikit-learn that needs no labels, or a list of
        these. All permutations share them; a relative `reg` and the width of a kernel
        are then those of each training set. None: nothing.
    confounds : array_like, shape (n_trials,) | (n_trials, n_confounds) | None
        Taken out of the features by linear regression before `preprocess`, in every
        fold with coefficients from its training trials. Texts and pandas' categories
        are categories, all others numbers, of which what is linear is taken out, no
        more: give squares and products too, and angles as sine and cosine.
    train_on : array_like of bool, shape (n_trials,) | None
        Which trials to train with; all others are for tests, as in cross-decoding. With
        `groups` or `cv` every fold trains on these trials of its training set and tests
        the others of its test set, so that whole runs are left out. Without either, one
        model is trained on all of them and tested on all others. Only the labels
        trained with are permuted (within groups, where `permute` says so): the other
        labels are never trained with, and the hypothesis is that what was trained with
        says nothing about what is tested, which may well be decodable by itself. A
        relative `reg` and the width of a kernel are those of each training set. Not for
        regression.
    n_repeats : int
        Repeat so often, and report the mean score: with `average` trials are grouped
        anew, without it folds are drawn anew (`cv` is a number, or a splitter with
        random folds). A permutation moves the labels of trials, once for all repeats,
        which run on them. ``result.repeats`` has the score of each.
    equalize : bool
        With `average`, make as many pseudo-trials of every class as the smallest has
        in each test set (and group); each repeat leaves out others. With ``average=1``
        this is random undersampling: trials are left out until classes are equal.
    average_test : bool
        With `average`, test averages; False tests single trials by models of averages.

    Returns
    -------
    result : SourceResult | SourceTimeResult
        ``.scores`` of the first metric at every position, ``.metrics``, ``.null`` (P,
        positions...), ``.predictions`` (positions..., n_trials), ``.chance``,
        ``.pvalues(correction=)``, ``.plot()``, ``.to_dataframe()``, ``.save()`` and
        ``.times`` (s; the centres of windows). The positions are

        * of all sources together (n_times,), a SourceResult, whose ``.patterns()`` are
          source estimates;
        * of a searchlight (n_vertices, n_times), a SourceTimeResult with ``.vertices``,
          ``.adjacency``, which clusters follow, and ``.to_stc(name)``.

    Raises
    ------
    ValueError, TypeError
        On source estimates that are not alike, not finite, or not as many as labels, a
        source space of other vertices or another subject, `src` without `radius` or
        `radius` without `src`, data that are flat at some position, checkpoints of
        other data or arguments, maps too large for memory, and all that
        :func:`cross_validate` refuses.

    See Also
    --------
    generalize_arrays : Time generalization, also of sources.

    Notes
    -----
    The data are held once, n_trials x n_features x n_times numbers of 8 bytes, or of 4
    if all estimates are in single precision (computations are in double precision
    either way, and the same). Source estimates from a generator are dropped one by one;
    those in a list take as much again, for they are yours. 300 trials of 8,000 vertices
    at 100 times are 1.9 GB, or 1 GB. `average` adds the averages, 1/k of that. With
    several workers joblib puts a copy into shared memory (or its temporary folder),
    which all of them read. A searchlight keeps, for every vertex and time, n_trials
    bytes of predictions, 8 bytes per metric and fold, and what `null` says.

    The unit of the estimates does not matter, which is about 1e-11 for currents in A m
    and 1 for z-scores: a relative `reg` adapts to it. Kernels with ``gamma=None``,
    which presume features of about unit variance, are given the data divided by their
    standard deviation over all trials (that are trained with), vertices and times. A
    gamma that is a number refers to the data as they are.

    Depth weighting and noise normalisation scale vertices against each other, and so
    does ``preprocess="zscore"``: they decide how much each counts.

    Examples
    --------
    When sources tell two classes apart:

    >>> import mne
    >>> import numpy as np
    >>> from mvpa_kfda import decode_sources, generalize_arrays
    >>> sphere = {"sphere": (0, 0, 0, 0.09), "verbose": False}
    >>> src = mne.setup_volume_source_space(pos=40.0, **sphere)
    >>> vertices, rng = [src[0]["vertno"]], np.random.default_rng(0)
    >>> y = np.repeat(["face", "house"], 20)
    >>> data = rng.normal(size=(40, len(vertices[0]), 4))  # trials, vertices, times
    >>> data[y == "house", 3, 2:] += 4
    >>> stcs = [mne.VolSourceEstimate(each, vertices, -0.1, 0.1) for each in data]
    >>> result = decode_sources(stcs, y, n_permutations=99, random_state=0)
    >>> result.times[result.pvalues("max") <= 0.05].round(2)
    array([0.1, 0.2])

    Where they are, in a searchlight:

    >>> options = {"n_permutations": 99, "random_state": 0}
    >>> where = decode_sources(stcs, y, src=src, radius=40.0, **options)
    >>> where.scores.shape == (len(vertices[0]), 4)
    True
    >>> where.pvalues("max")[3] <= 0.05
    array([False, False,  True,  True])

    Time generalization of sources:

    >>> X = np.stack([stc.data for stc in stcs])
    >>> generalize_arrays(X, y, tmin=stcs[0].tmin, sfreq=stcs[0].sfreq).scores.shape
    (4, 4)
    """
    kernel, reg = resolve_method(kernel, reg, approx)
    check_option("window_mode", window_mode, ("mean", "concatenate"))
    n_jobs, progress = check_jobs(n_jobs), progress_wanted(verbose)
    check_checkpoint(checkpoint)
    _check_searchlight(src, radius, null)
    reader = SourceReader(stcs, y)
    windows = cut_windows(reader.times, 1 / reader.tstep, window, step)
    kind, rows, fields, recorded = _lay_out(reader, windows, src, radius)
    null = "all" if src is None else null
    with open_checkpoint(checkpoint) as kept:
        analysis = make_analysis(
            y,
            reader.n_trials,
            groups=groups,
            kernel=kernel,
            reg=reg,
            cv=cv,
            scoring=scoring,
            n_permutations=n_permutations,
            permute=permute,
            random_state=resumed_seed(kept, random_state),
            dtype=dtype,
            with_patterns=kernel.is_linear and src is None,
            n_components=n_components,
            keep_class_scores=keep_class_scores,
            preprocess=preprocess,
            how=Repeating(average, n_repeats, equalize, average_test),
            confounds=read_confounds(confounds, reader.n_trials),
            train_on=read_train_on(train_on, reader.n_trials),
            maps=Maps(null, rows["starts"].shape, WindowPositions.fewer),
        )
        data = reader.read()
        recorded |= record_windows(windows, 1 / reader.tstep, window_mode, data)
        if kernel.assumes_unit_scale:
            rescale(data, analysis.single[2])
        data, kernel = analysis.average(data, kernel, axis=1)
        rows |= {"width": windows.width, "mode": window_mode, "times": windows.times}
        positions = WindowPositions(data=data, kernel=kernel, reg=reg, **rows)
        n_tested = len(analysis.tested)
        null = check_null(null, analysis.task, positions, n_tested, n_jobs)
        if kept:
            kept.start(_describe(positions, analysis, recorded | {"null": null}))
        return decode(
            positions,
            analysis,
            kind,
            null=null,
            n_jobs=n_jobs,
            verbose=progress,
            checkpoint=kept,
            parameters=recorded,
            times=windows.times,
            **fields,
        )


def _check_searchlight(src, radius, null):
    """Refuse half of a searchlight, and options that only a searchlight has."""
    check_option("null", null, NULLS)
    if (src is None) != (radius is None):
        given, missing = ("radius", "src") if src is None else ("src", "radius")
        raise ValueError(
            f"{given} is given without {missing}. A searchlight needs both, src= for "
            "where sources are and radius= in mm; leave out both to decode all sources "
            "together."
        )
    if src is None and null != "auto":
        raise ValueError(
            f"null={null!r} is for searchlights, with src and radius. A time course "
            "keeps all of its permutations; leave null out."
        )


def _lay_out(reader, windows, src, radius):
    """Return a map's class of result, its rows, its fields, and what it records."""
    tstep = windows.step * reader.tstep
    if src is None:
        sources = reader.form.pack() | {"tstep": tstep}
        return SourceResult, {"starts": windows.starts}, {"sources": sources}, {}
    near = find_source_neighbours(reader.form, src, radius)
    names, of_each = near.form.labels(), np.arange(near.form.n_values)
    features = near.members.indices[:, None] * len(of_each) + of_each
    shape = len(names), len(windows.starts)
    rows = {
        "starts": np.tile(windows.starts, (len(names), 1)),
        "names": np.char.add("vertex ", names),
        "channels": Rows(near.members.indptr * len(of_each), features.ravel()),
        "adjacency": sensor_time_adjacency(near.pairs, *shape),
    }
    sources = near.form.pack() | {"tstep": tstep}
    fields = {"vertices": names, "adjacency": near.pairs, "sources": sources}
    return SourceTimeResult, rows, fields, {"radius": float(radius)}


def _describe(positions, analysis, parameters):
    """Return what a checkpoint's parts depend on."""
    known = {"stcs": digest(positions.data), "times": digest(positions.times)}
    if positions.channels is not None:
        near = positions.channels
        known["src and radius"] = digest(near.indptr, near.indices)
    return describe_run(positions, 0, analysis, parameters, known)
