"""Decoding of MNE-Python epochs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict, overload

import mne
import numpy as np
from mne.time_frequency import EpochsTFR
from numpy.typing import ArrayLike

from ..data.classes import EpochLabels, choose_epochs, names_classes
from ..data.confounds import Confounds, confounds_of_epochs, train_on_of_epochs
from ..data.epochs import (
    check_epochs,
    check_map,
    check_scale,
    find_neighbours,
    fit_scaling,
    pick_channels,
    progress_wanted,
    samples_first,
    sampling_rate,
    scale_name,
)
from ..inference.permutation import Permute
from ..kfda.arguments import (
    Adjacency,
    CrossValidation,
    KernelLike,
    PenaltyLike,
    Preprocess,
)
from ..kfda.models import for_channels, resolve_method
from ..kfda.nystrom import Nystrom
from ..metrics.names import Scoring
from ..results.decoding import TimeRegressionResult
from ..results.epochs import SensorTimeResult, TimeFrequencyResult, TimeResult
from ..results.kinds import keeps_warnings
from ..results.patterns import pack_info
from ..utils.checks import Precision, Seed, check_jobs, check_option
from .analysis import decode
from .positions import WindowPositions, cut_windows
from .regression import TASKS, refuse_for_regression
from .repeating import Repeating
from .sizes import Maps

if TYPE_CHECKING:
    from mne import BaseEpochs, Covariance
    from mne.time_frequency import AverageTFR
    from typing_extensions import Unpack

    Sensors = Adjacency | Literal["adjacency", True]
    # What type checkers think that Epochs.compute_tfr returns; MNE-Python has no types.
    Power = EpochsTFR | AverageTFR | tuple[Any, ...]


# Type checkers read these signatures, of which each has its own kind of result. Their
# options are those of the function below.


class _Options(TypedDict, total=False):
    """What `decode_epochs` may be told, whatever it decodes."""

    groups: ArrayLike | None
    picks: str | Sequence[str] | Sequence[int] | None
    scale: Literal["auto", "channel"] | Covariance | None
    window: float | None
    step: float | None
    window_mode: Literal["mean", "concatenate"]
    kernel: KernelLike
    reg: PenaltyLike
    cv: CrossValidation
    scoring: Scoring
    n_permutations: int
    permute: Permute
    random_state: Seed
    n_jobs: int | None
    dtype: Precision
    verbose: bool | str | int | None
    n_components: int | None
    approx: Nystrom | None
    average: int | Literal["max"] | None
    keep_class_scores: bool
    preprocess: Preprocess
    confounds: Confounds
    train_on: ArrayLike | str | None
    n_repeats: int
    equalize: bool
    average_test: bool


@overload
def decode_epochs(
    epochs: BaseEpochs,
    y: EpochLabels = None,
    *,
    groups: ArrayLike | None = None,
    picks: str | Sequence[str] | Sequence[int] | None = None,
    sensors: None = None,
    scale: Literal["auto", "channel"] | Covariance | None = "auto",
    window: float | None = None,
    step: float | None = None,
    window_mode: Literal["mean", "concatenate"] = "mean",
    kernel: KernelLike = "linear",
    reg: PenaltyLike = "auto",
    cv: CrossValidation = None,
    scoring: Scoring = "accuracy",
    n_permutations: int = 0,
    permute: Permute = "auto",
    random_state: Seed = None,
    n_jobs: int | None = None,
    dtype: Precision = "float64",
    verbose: bool | str | int | None = None,
    n_components: int | None = None,
    approx: Nystrom | None = None,
    average: int | Literal["max"] | None = None,
    task: Literal["classification"] = "classification",
    keep_class_scores: bool = False,
    preprocess: Preprocess = None,
    confounds: Confounds = None,
    train_on: ArrayLike | str | None = None,
    n_repeats: int = 1,
    equalize: bool = False,
    average_test: bool = True,
) -> TimeResult: ...


@overload
def decode_epochs(
    epochs: Power,
    y: EpochLabels = None,
    *,
    sensors: None = None,
    task: Literal["classification"] = "classification",
    **options: Unpack[_Options],
) -> TimeFrequencyResult: ...


@overload
def decode_epochs(
    epochs: BaseEpochs,
    y: EpochLabels = None,
    *,
    sensors: Sensors,
    task: Literal["classification"] = "classification",
    **options: Unpack[_Options],
) -> SensorTimeResult: ...


@overload
def decode_epochs(
    epochs: BaseEpochs,
    y: EpochLabels = None,
    *,
    sensors: None = None,
    task: Literal["regression"],
    **options: Unpack[_Options],
) -> TimeRegressionResult: ...


@keeps_warnings
def decode_epochs(
    epochs,
    y=None,
    *,
    groups=None,
    picks=None,
    sensors=None,
    scale="auto",
    window=None,
    step=None,
    window_mode="mean",
    kernel="linear",
    reg="auto",
    cv=None,
    scoring="accuracy",
    n_permutations=0,
    permute="auto",
    random_state=None,
    n_jobs=None,
    dtype="float64",
    verbose=None,
    n_components=None,
    approx=None,
    average=None,
    task="classification",
    keep_class_scores=False,
    preprocess=None,
    confounds=None,
    train_on=None,
    n_repeats=1,
    equalize=False,
    average_test=True,
):
    """Decode class labels from epochs at every time point, without retraining.

    A kernel Fisher discriminant analysis is cross-validated at every time point, or in
    windows that slide over the epoch, for the observed labels and for permuted ones.
    Power is decoded at every frequency too, and `sensors` makes a searchlight of it
    that decodes every sensor's neighbourhood. Folds and permutations are the same at
    all positions of such a map, so that the permutations carry the dependence between
    positions and correct for many of them.

    Parameters
    ----------
    epochs : mne.Epochs | mne.time_frequency.EpochsTFR
        Epochs (or EpochsArray) with real, finite data. They are not changed. Also the
        power of epochs at several frequencies (or an EpochsTFRArray), each of which is
        brought to one scale by itself.
    y : None | str | array_like, shape (n_epochs,) | list of str | dict
        None: the names in ``epochs.event_id`` are the classes. A string: a column of
        ``epochs.metadata``. An array or list with one label per epoch. A list of fewer
        names, ``["face", "house"]``: each is a class, with the events that have this
        name or tag as in ``epochs["face"]``, say ``"face/left"`` and ``"face/right"``.
        A dict names the classes: ``{"animate": ["face", "body"], "inanimate":
        "house"}``. Epochs of no class are left out; an event of two classes is an
        error.
    groups : None | str | array_like, shape (n_epochs,)
        Runs, sessions or subjects: ``cv=None`` leaves out one at a time, splitters that
        use groups are given them, and `permute` respects them. The name of a metadata
        column, or one for each epoch, also those that `y` leaves out.
    picks : str | list | None
        Channels, as in MNE-Python. None takes all data channels (of all types). Bad
        channels always stay out; misc channels are used when picked.
    sensors : None | "adjacency" | matrix | tuple of (matrix, ch_names)
        None: all channels are features together. Else a searchlight over sensors: the
        features of a position are one sensor and its neighbours. ``"adjacency"`` (or
        True): the neighbours that :func:`mne.channels.find_ch_adjacency` finds for
        channels of one type. A sparse or dense matrix, shape (n_channels, n_channels):
        1 for neighbours and 0 for others, with the picked channels in their order. A
        tuple, as that function returns it: channels are matched by name, and may be
        more than those picked. Every sensor is in its own neighbourhood in any case.
        Not for power, and not with a noise covariance as `scale`, by which no
        neighbourhood would stay local.
    scale : "auto" | "channel" | mne.Covariance | None
        How to bring channels to one scale. ``"auto"``: when the channels are of several
        types, each type is divided by its standard deviation over epochs, channels and
        times; channels of a single type stay in their unit (except for a kernel with
        ``gamma=None``, which presumes features of about unit variance). ``"channel"``:
        each channel is divided by its own standard deviation. A noise covariance:
        channels are whitened with it. None: nothing. Standard deviations are those of
        all epochs and picked channels, without labels; with `train_on` of those to
        train with.
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
        `reg`. :class:`GraphSmooth` makes weights smooth over neighbouring channels.
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
        Each position has its own lambda.
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
        ones exist, all of them are used. They are the same at every position.
    permute : "auto" | "within_folds" | "within_groups" | "groups" | "free"
        What may be exchanged. ``"within_folds"``: trials of the same training and test
        sets (and group); ``"within_groups"``: trials of a group; ``"groups"``: whole
        groups; ``"free"``: all trials; ``"auto"``: what is valid for the folds and
        groups, whatever `n_permutations`, by the rules of
        :func:`~mvpa_kfda.inference.permutation.permute_labels`.
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
    task : "classification" | "regression"
        ``"regression"`` predicts numbers, such as reaction times, by kernel ridge
        regression: `y` holds one for each trial, splitters are not shown it, and the
        score is ``"r2"`` unless `scoring` asks for ``"pearsonr"`` or
        ``"neg_mean_squared_error"``. `n_components` and `average` are for classes only.
        So are `sensors` and power.
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
    confounds : str | list of str | array_like, shape (n_epochs, ...) | None
        Taken out of the features by linear regression before `preprocess`, in every
        fold with coefficients from its training trials. Texts and pandas' categories
        are categories, all others numbers, of which what is linear is taken out, no
        more: give squares and products too, and angles as sine and cosine. A string or
        list of strings: columns of ``epochs.metadata``.
    train_on : str | array_like of bool, shape (n_epochs,) | None
        Which trials to train with; all others are for tests, as in cross-decoding. With
        `groups` or `cv` every fold trains on these trials of its training set and tests
        the others of its test set, so that whole runs are left out. Without either, one
        model is trained on all of them and tested on all others. Only the labels
        trained with are permuted (within groups, where `permute` says so): the other
        labels are never trained with, and the hypothesis is that what was trained with
        says nothing about what is tested, which may well be decodable by itself. A
        relative `reg` and the width of a kernel are those of each training set. Not for
        regression. A string is a query on
        ``epochs.metadata`` as pandas understands it, for example
        ``"position == 'upper'"``; of an array also what `y` leaves out.
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
    result : TimeResult | TimeFrequencyResult | SensorTimeResult | TimeRegressionResult
        ``.scores`` of the first metric at every position, ``.metrics``, ``.null``
        (P, positions...), ``.predictions`` (positions..., n_epochs), ``.chance``,
        ``.pvalues(correction=)``, ``.plot()``, ``.to_dataframe()``, ``.save()`` and
        ``.times`` (s; the centres of windows). The positions are

        * of epochs (n_times,), a TimeResult;
        * of power (n_freqs, n_times), a TimeFrequencyResult with ``.freqs`` (Hz);
        * with `sensors` (n_channels, n_times), a SensorTimeResult with ``.ch_names``,
          ``.info`` and ``.adjacency``, which clusters follow;
        * of regression (n_times,), a TimeRegressionResult, whose predictions are
          numbers.

        Where `y` names classes, trials are those of the epochs that are left, for
        `cv` too; ``.parameters["selected"]`` has their indices among the given epochs,
        ``.parameters["classes"]`` the events of each class.

    Raises
    ------
    ValueError, TypeError
        On empty epochs, data that is complex or not finite, an unknown metadata column,
        event or tag, a class without epochs, an event of two classes, a window longer
        than the epoch, data that is flat at some time, channels whose neighbours are
        not known, an adjacency that does not fit the channels, and all that
        :func:`cross_validate` refuses.

    Examples
    --------
    >>> from mvpa_kfda import decode_epochs, simulate_epochs
    >>> epochs = simulate_epochs(random_state=0)
    >>> result = decode_epochs(epochs, n_permutations=100, random_state=0)
    >>> bool(result.pvalues("max").min() < 0.05)
    True

    Two of three classes, by the names of their events:

    >>> sorted(epochs.event_id)
    ['class_1', 'class_2', 'class_3']
    >>> decode_epochs(epochs, ["class_1", "class_3"]).chance
    0.5

    Averages of five trials, grouped anew ten times:

    >>> options = {"average": 5, "n_repeats": 10, "cv": 3, "random_state": 0}
    >>> result = decode_epochs(epochs, window=0.1, step=0.1, **options)
    >>> result.repeats["accuracy"].shape == (len(result.times), 10)
    True

    Where on the head, in windows of 0.1 s:

    >>> result = decode_epochs(epochs, sensors="adjacency", window=0.1, step=0.1)
    >>> result.scores.shape == (len(result.ch_names), len(result.times))
    True

    At which frequencies:

    >>> tfr = epochs.compute_tfr(
    ...     "morlet", freqs=[8, 16, 32], n_cycles=3, decim=10, verbose=False
    ... )
    >>> decode_epochs(tfr).scores.shape == (3, len(tfr.times))
    True
    """
    kernel, reg = resolve_method(kernel, reg, approx)
    check_option("window_mode", window_mode, ("mean", "concatenate"))
    check_scale(scale)
    n_jobs, progress = check_jobs(n_jobs), progress_wanted(verbose)
    sensors = None if sensors is False else sensors
    epochs = check_epochs(epochs, power=True)
    check_map(epochs, sensors, scale)
    make, kind = TASKS[check_option("task", task, tuple(TASKS))]
    _check_task(task, epochs, y, sensors)
    confounds = confounds_of_epochs(epochs, confounds)
    chosen = choose_epochs(epochs, y, groups)
    train_on = train_on_of_epochs(epochs, train_on, chosen)
    epochs = chosen.epochs
    sfreq = sampling_rate(epochs, window, step)
    windows = cut_windows(epochs.times, sfreq, window, step)
    picks = pick_channels(epochs.info, picks)
    info = mne.pick_info(epochs.info, picks)
    kind, rows, coordinates = _lay_out(epochs, info, sensors, windows.starts, kind)
    analysis = make(
        chosen.y,
        len(epochs),
        groups=chosen.groups,
        kernel=kernel,
        reg=reg,
        cv=cv,
        scoring=scoring,
        n_permutations=n_permutations,
        permute=permute,
        random_state=random_state,
        dtype=dtype,
        with_patterns=kernel.is_linear and sensors is None,
        n_components=n_components,
        keep_class_scores=keep_class_scores,
        preprocess=preprocess,
        how=Repeating(average, n_repeats, equalize, average_test),
        confounds=None if confounds is None else confounds[chosen.kept],
        train_on=train_on,
        maps=Maps("all", rows["starts"].shape, WindowPositions.fewer),
        numbers=chosen.numbers,
    )
    data = samples_first(epochs, picks)
    scaling = fit_scaling(info, analysis.of_trained(data), scale, kernel)
    data = scaling.apply(data).reshape(-1, *data.shape[-2:])
    kernel = for_channels(kernel, info["ch_names"])
    data, kernel = analysis.average(data, kernel, axis=1)
    rows |= {"width": windows.width, "mode": window_mode, "times": windows.times}
    recorded = record_epochs(info, scale, windows, window_mode, sfreq)
    return decode(
        WindowPositions(data=data, kernel=kernel, reg=reg, **rows),
        analysis,
        kind,
        n_jobs=n_jobs,
        verbose=progress,
        parameters=recorded | chosen.record,
        undo=scaling.undo,
        times=windows.times,
        **coordinates,
    )


def record_epochs(info, scale, windows, window_mode, sfreq):
    """Return what a result records about channels and windows."""
    return {
        "ch_names": list(info["ch_names"]),
        "scale": scale_name(scale),
        "window": windows.width / sfreq,
        "step": windows.step / sfreq,
        "window_mode": window_mode,
        "sfreq": sfreq,
    }


def _check_task(task, epochs, y, sensors):
    """Refuse what regression over time has not: power, and class names."""
    if task != "regression":
        return
    refuse_for_regression(sensors=sensors)
    if isinstance(epochs, EpochsTFR):
        raise ValueError(
            "task='regression' is for epochs, not for power at several frequencies. "
            "Pick a frequency and make epochs of its power, mne.EpochsArray."
        )
    if y is None:
        raise ValueError(
            "task='regression' needs the values to predict: y=, one number for each "
            "epoch or the name of a column of epochs.metadata."
        )
    if names_classes(y, len(epochs)):
        raise ValueError(
            "task='regression' predicts numbers, and y names classes of events. Give "
            "one number for each epoch or the name of a column of epochs.metadata."
        )


def _lay_out(epochs, info, sensors, starts, kind):
    """Return a map's class of result, fields of its positions, and its coordinates."""
    kept = {"info_fif": pack_info(info)}
    if isinstance(epochs, EpochsTFR):
        # One frequency after the other along the samples.
        first = len(epochs.times) * np.arange(len(epochs.freqs))[:, np.newaxis]
        names = tuple(f"{freq:g} Hz" for freq in epochs.freqs)
        rows = {"starts": first + starts, "names": names}
        return TimeFrequencyResult, rows, kept | {"freqs": epochs.freqs}
    if sensors is None:
        return kind, {"starts": starts}, kept if kind is TimeResult else {}
    pairs = find_neighbours(info, sensors)
    near = np.eye(len(info["ch_names"]), dtype=bool)
    near[tuple(pairs)] = near[tuple(pairs[::-1])] = True
    rows = {
        "starts": np.tile(starts, (len(near), 1)),
        "names": tuple(f"sensor {name}" for name in info["ch_names"]),
        "channels": tuple(np.flatnonzero(row) for row in near),
    }
    kept |= {"ch_names": info["ch_names"], "adjacency": pairs}
    return SensorTimeResult, rows, kept
