"""Decoding over time: of epochs, power, arrays and source estimates.

At each time, or in time generalization trained at one time and tested at another.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, TypedDict, overload

import mne
import numpy as np
from numpy.typing import ArrayLike

from ..data.epochs import (
    EpochLabels,
    check_alone,
    check_no_same_trials,
    check_same_trials,
    find_neighbours,
    fit_scaling,
    progress_wanted,
    read_epoch_data,
    read_pairs,
    without_copy,
)
from ..data.sources import find_source_neighbours, open_sources, rescale
from ..data.trials import Confounds, Trials, make_trials
from ..kfda.kernels import Adjacency, for_channels
from ..results.epochs import (
    GeneralizationResult,
    SensorTimeResult,
    SourceResult,
    SourceTimeResult,
    TimeFrequencyResult,
    TimeRegressionResult,
    TimeResult,
    exempt_cells,
)
from ..results.patterns import pack_info
from ..results.places import sensor_time_adjacency
from ..utils.axes import AXES
from ..utils.checkpoint import open_checkpoint
from ..utils.checks import (
    check_finite,
    check_option,
    check_positive,
    check_real,
    warn_of_angles,
)
from ..utils.fingerprints import note_input
from .analysis import decode, make_analysis
from .positions import GeneralizationPositions, RaggedIndices, WindowPositions
from .problems import refusal
from .procedure import (
    ClassOptions,
    JobOptions,
    LoggedJobOptions,
    Predicted,
    Procedure,
    RunOptions,
    TargetOptions,
    Windowing,
    WindowOptions,
    decodes,
    taken,
)
from .run import KeptNull

if TYPE_CHECKING:
    from mne import (
        BaseEpochs,
        Covariance,
        MixedSourceEstimate,
        SourceEstimate,
        SourceSpaces,
        VolSourceEstimate,
    )
    from mne.time_frequency import AverageTFR, EpochsTFR
    from typing_extensions import Unpack

    Sensors = Adjacency | Literal["adjacency", True]
    # What type checkers think that Epochs.compute_tfr returns; MNE-Python has no types.
    Power = EpochsTFR | AverageTFR | tuple[Any, ...]
    Estimate = SourceEstimate | VolSourceEstimate | MixedSourceEstimate


class ChannelOptions(TypedDict, total=False):
    """Which channels are decoded, and in which units."""

    picks: str | Sequence[str] | Sequence[int] | None
    scale: Literal["auto", "channel"] | Covariance | None


@dataclass(frozen=True)
class Channels:
    """Which channels are decoded, and in which units.

    Parameters
    ----------
    picks : str | list | None
        Channels, as in MNE-Python. None takes all data channels (of all types), without
        the reference channels of CTF, KIT and 4D systems, which are used only when
        picked. Bad channels always stay out; misc channels are used when picked.
    scale : "auto" | "channel" | mne.Covariance | None
        Scaling of channels. ``"auto"``: if there are several channel types, each type
        is divided by its standard deviation over epochs, channels and times; channels
        of a single type keep their unit (except for a kernel with ``gamma=None``, which
        assumes features of about unit variance). ``"channel"``: each channel is divided
        by its standard deviation. A noise covariance: channels are whitened with it.
        None: no scaling. Standard deviations are computed from all epochs and picked
        channels, without labels; with `train_on` from the training epochs.
    """

    picks: Any = None
    scale: Any = "auto"

    def __post_init__(self):
        """Check what does not depend on the channels there are."""
        if not isinstance(self.scale, mne.Covariance):
            allowed = ("auto", "channel", None)
            check_option("scale", self.scale, allowed, also=("a noise covariance",))


def logged(options):
    """Whether progress is wanted, for a level of MNE-Python's log."""
    return {"verbose": progress_wanted(options.get("verbose"))}


class TrialOptions(TypedDict, total=False):
    """What is known of trials that are epochs, beside their labels.

    Parameters
    ----------
    y : None | str | array_like, shape (n_epochs,) | list of str | dict
        None: the names in ``epochs.event_id`` are the classes. A string: a column of
        ``epochs.metadata``. An array or list with one label per epoch. A list of fewer
        names, ``["face", "house"]``: each is a class, with the events that have this
        name or tag as in ``epochs["face"]``, say ``"face/left"`` and ``"face/right"``.
        A dict names the classes: ``{"animate": ["face", "body"], "inanimate":
        "house"}``. Epochs of no class are left out; an event of two classes is an
        error.
    confounds : str | list of str | array_like, shape (n_epochs, ...) | None
        ... A string or list of strings: columns of ``epochs.metadata``.
    train_on : str | array_like of bool, shape (n_epochs,) | None
        ... A string is a query on ``epochs.metadata`` as pandas understands it, for
        example ``"position == 'upper'"``; of an array also what `y` leaves out.
    """

    groups: ArrayLike | None
    confounds: Confounds
    train_on: ArrayLike | str | None


class ArrayOptions(WindowOptions, ClassOptions, TargetOptions, JobOptions, total=False):
    """What `decode_arrays` may be told."""

    keep_class_scores: bool


class TimeOptions(
    WindowOptions, ClassOptions, TargetOptions, LoggedJobOptions, total=False
):
    """What functions may be told that decode data of MNE-Python."""

    keep_class_scores: bool


class _Options(TrialOptions, ChannelOptions, TimeOptions, total=False):
    """What `decode_epochs` may be told, whatever it decodes."""


# ------------------------------------------------------------------------------ epochs

# Type checkers read these signatures, of which each has its own kind of result.


@overload
def decode_epochs(
    epochs: BaseEpochs,
    y: EpochLabels = None,
    *,
    sensors: None = None,
    task: Literal["classification"] = "classification",
    **options: Unpack[_Options],
) -> TimeResult: ...


@overload
def decode_epochs(
    epochs: Power,
    y: EpochLabels = None,
    *,
    sensors: None = None,
    task: Literal["classification", "regression"] = "classification",
    **options: Unpack[_Options],
) -> TimeFrequencyResult: ...


@overload
def decode_epochs(
    epochs: BaseEpochs,
    y: EpochLabels = None,
    *,
    sensors: Sensors,
    task: Literal["classification", "regression"] = "classification",
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


@decodes(_Options, TrialOptions, Channels, Predicted, LoggedJobOptions)
def decode_epochs(epochs, y=None, *, sensors=None, task="classification", **options):
    """Decode class labels from epochs at each time point, without retraining.

    A kernel Fisher discriminant analysis is cross-validated at each time point, or in
    sliding windows, for the observed labels and for permuted ones. Power is also
    decoded at each frequency, and with `sensors` the neighbourhood of each sensor is
    decoded (searchlight). All positions of such a map share folds and permutations, so
    the permutations preserve the dependence between positions, which is used to correct
    for multiple testing.

    Parameters
    ----------
    epochs : mne.Epochs | mne.time_frequency.EpochsTFR
        Epochs (or EpochsArray) with real, finite data. They are not changed. Also
        single-trial power at several frequencies (or an EpochsTFRArray), each of which
        is scaled separately.
    groups : None | str | array_like, shape (n_epochs,)
        ... The name of a metadata column, or one value per epoch, including those that
        `y` leaves out.
    sensors : None | "adjacency" | matrix | tuple of (matrix, ch_names)
        None: all channels together are the features. Otherwise a searchlight over
        sensors: the features of a position are one sensor and its neighbours.
        ``"adjacency"`` (or True): neighbours found by
        :func:`mne.channels.find_ch_adjacency` for channels of one type. A sparse or
        dense matrix, shape (n_channels, n_channels): 1 for neighbours and 0 for others,
        in the order of the picked channels. A tuple as returned by that function:
        channels are matched by name, and may include more than those picked. Each
        sensor always belongs to its neighbourhood. Not for power, and not with a noise
        covariance as `scale`, after which neighbourhoods would not be local.
    kernel
        ... :class:`GraphSmooth` smooths weights over neighbouring channels.
    reg
        ... Each position has its own lambda.
    n_permutations
        ... All positions share them.

    Returns
    -------
    result : TimeResult | TimeFrequencyResult | SensorTimeResult | TimeRegressionResult
        ``.scores`` of the first metric at each position, ``.metrics``, ``.null`` (P,
        positions...), ``.predictions`` (positions..., n_epochs), ``.chance``,
        ``.pvalues(correction=)``, ``.plot()``, ``.to_dataframe()``, ``.save()`` and
        ``.times`` (s; the centres of windows). The positions are

        * for epochs (n_times,), a TimeResult;
        * for power (n_freqs, n_times), a TimeFrequencyResult with ``.freqs`` (Hz);
        * with `sensors` (n_channels, n_times), a SensorTimeResult with ``.ch_names``,
          ``.info`` and ``.adjacency``, which clusters follow;
        * for regression without `sensors` and power (n_times,), a TimeRegressionResult.

        With ``task="regression"`` predictions are continuous values.

        If `y` names classes, trials are the remaining epochs, for `cv` too;
        ``.parameters["selected"]`` has their indices among the given epochs,
        ``.parameters["classes"]`` the events of each class.

    Raises
    ------
    ValueError, TypeError
        On empty epochs, complex or non-finite data, an unknown metadata column, event
        or tag, a class without epochs, an event of two classes, a window longer than
        the epoch, data that are flat at some time, channels with unknown neighbours, an
        adjacency that does not match the channels, and anything that
        :func:`cross_validate` rejects.

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

    Averages of five trials, regrouped ten times:

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
    procedure = Procedure.of(options | logged(options), keep_all=True)
    channels = taken(Channels, options)
    method, sensors = procedure.method, None if sensors is False else sensors
    predicted = taken(Predicted, options, task=task)
    known = {name: options.get(name) for name in TrialOptions.__annotations__}
    recording = read_epoch_data(epochs, y, channels.picks, power=True, **known)
    windows = taken(Windowing, options).cut(recording.times, recording.sfreq)
    kind, rows, coordinates = _lay_out(recording, sensors, channels.scale)
    if predicted.of_values:
        _check_regression(recording, y)
        if kind is TimeResult:  # which has patterns and scores of classes
            kind, coordinates = TimeRegressionResult, {}
    positions = WindowPositions(None, windows, method.kernel, method.reg, **rows)
    analysis = make_analysis(
        recording.trials,
        procedure,
        WindowPositions,
        positions.shape,
        predicted=predicted,
        with_patterns=method.kernel.is_linear
        and sensors is None
        and not predicted.of_values,
    )
    data, info = recording.data, recording.info
    asked = info, analysis.of_trained(data), channels.scale, method.kernel
    apply, undo = fit_scaling(*asked)
    data = apply(data)
    data = data.reshape(-1, *data.shape[-2:])
    kernel = for_channels(method.kernel, info["ch_names"])
    return decode(
        replace(positions, data=data, kernel=kernel),
        analysis,
        kind,
        parameters=record_epochs(recording, channels.scale, windows),
        undo=undo,
        times=windows.times,
        **coordinates,
    )


def record_epochs(recording, scale, windows):
    """What a result records about epochs, channels and windows."""
    return {
        "ch_names": list(recording.info["ch_names"]),
        "scale": scale if isinstance(scale, str | None) else "covariance",
        **windows.record(),
        **recording.record,
    }


def _check_regression(recording, y):
    """Refuse class names where there are to be values."""
    if y is None:
        raise refusal("regression: no values")
    if "classes" in recording.record:
        raise refusal("regression: classes")


def _lay_out(recording, sensors, scale):
    """A map's class of result, fields of its positions, and its coordinates."""
    info, freqs = recording.info, recording.freqs
    whitened, kept = isinstance(scale, mne.Covariance), {"info_fif": pack_info(info)}
    if freqs is not None:
        if sensors is not None:
            raise refusal("sensors of power")
        if whitened:
            raise refusal("whitened power")
        # One frequency after the other along the samples.
        first = len(recording.times) * np.arange(len(freqs))
        names = tuple(AXES["freqs"].place.format(f"{x:g}") for x in freqs)
        kept["freqs"] = freqs
        return TimeFrequencyResult, {"first": first, "names": names}, kept
    if sensors is None:
        return TimeResult, {}, kept
    if whitened:
        raise refusal("whitened sensors")
    pairs, names = find_neighbours(info, sensors), info["ch_names"]
    near = np.eye(len(names), dtype=bool)
    near[tuple(pairs)] = near[tuple(pairs[::-1])] = True
    rows = {
        "first": np.zeros(len(near), int),
        "names": tuple(map(AXES["ch_names"].place.format, names)),
        "channels": tuple(map(np.flatnonzero, near)),
    }
    return SensorTimeResult, rows, kept | {"ch_names": names, "adjacency": pairs}


# ------------------------------------------------------------------------------ arrays


@decodes(ArrayOptions, Predicted)
def decode_arrays(
    X: ArrayLike,
    y: ArrayLike,
    *,
    sfreq: float = 1.0,
    tmin: float = 0.0,
    groups: ArrayLike | None = None,
    confounds: Confounds = None,
    train_on: ArrayLike | None = None,
    task: Literal["classification", "regression"] = "classification",
    **options: Unpack[ArrayOptions],
) -> TimeResult | TimeRegressionResult:
    """Decode class labels at each time point of an array, without retraining.

    Like :func:`decode_epochs`, but for data other than MNE-Python epochs, without
    handling of channels. For source estimates use :func:`decode_sources`.

    Parameters
    ----------
    X : array_like, shape (n_trials, n_features, n_times)
        Real, finite data. They are copied once, in their own type; each window is
        computed in double precision.
    sfreq : float
        Samples per second. With 1, times and windows are in samples.
    tmin : float
        Time of the first sample in seconds.
    reg
        ... Each time point has its own lambda.
    n_permutations
        ... All time points share them.

    Returns
    -------
    result : TimeResult | TimeRegressionResult
        ``.scores`` (n_times,) of the first metric, ``.metrics``, ``.null`` (P,
        n_times), ``.predictions`` (n_times, n_trials), ``.chance``,
        ``.pvalues(correction=)``, ``.plot()``, ``.to_dataframe()``, ``.save()`` and
        ``.times`` (s; the centres of windows). With ``task="regression"`` a
        TimeRegressionResult, whose predictions are continuous values.

    Raises
    ------
    ValueError, TypeError
        On data that are flat at some time, a window longer than the data, and anything
        that :func:`cross_validate` rejects.

    Examples
    --------
    >>> import numpy as np
    >>> from mvpa_kfda import decode_arrays
    >>> rng = np.random.default_rng(0)
    >>> y = rng.permutation([0, 1] * 20)
    >>> X = rng.normal(size=(40, 8, 5))  # trials, features, times
    >>> X[:, 0, 3:] += 3 * y[:, None]
    >>> result = decode_arrays(X, y, sfreq=10, n_permutations=99, random_state=0)
    >>> result.times[result.pvalues("max") <= 0.05]
    array([0.3, 0.4])
    """
    procedure = Procedure.of(options, keep_all=True)
    method, predicted = procedure.method, taken(Predicted, options, task=task)
    data = array_samples_first(X, "X", dtype=None)
    windows = cut_array(data, sfreq, tmin, options)
    analysis = make_analysis(
        make_trials(y, data.shape[1], groups, confounds, train_on),
        procedure,
        WindowPositions,
        windows.starts.shape,
        predicted=predicted,
    )
    return decode(
        WindowPositions(data, windows, method.kernel, method.reg),
        analysis,
        TimeRegressionResult if predicted.of_values else TimeResult,
        parameters={"n_features": data.shape[2], **windows.record()},
        times=windows.times,
    )


def array_samples_first(X, name, n_features=None, dtype=np.float64):
    """A checked array as new data (n_times, n_trials, n_features).

    With the dtype None in the type of the array, which saves memory: every window is
    computed with in double precision anyway.
    """
    X = check_real(X, name, ndim=3)
    if n_features is not None and X.shape[1] != n_features:
        raise refusal("features", name=name, n=X.shape[1], n_train=n_features)
    warn_of_angles(X, name, f"np.concatenate([np.sin({name}), np.cos({name})], axis=1)")
    note_input("data" if name == "X" else "data_test", X, np.float64)
    dtype = X.dtype.newbyteorder("=") if dtype is None else dtype
    return np.array(X.transpose(2, 0, 1), dtype, order="C")


def cut_array(data, sfreq, tmin, options):
    """The `Windows` of data (n_times, n_trials, n_features)."""
    check_positive("sfreq", sfreq, hint=" It is in samples per second.")
    check_finite("tmin", tmin, hint=" It is in seconds.")
    times = tmin + np.arange(len(data)) / sfreq
    return taken(Windowing, options).cut(times, sfreq)


# ----------------------------------------------------------------------------- sources


class _SourceOptions(TimeOptions, RunOptions, total=False):
    """What `decode_sources` may be told."""


@decodes(_SourceOptions, LoggedJobOptions, Predicted, data=("src",))
def decode_sources(
    stcs: Iterable[Estimate],
    y: ArrayLike,
    *,
    src: SourceSpaces | str | PathLike[str] | None = None,
    radius: float | None = None,
    groups: ArrayLike | None = None,
    confounds: Confounds = None,
    train_on: ArrayLike | None = None,
    task: Literal["classification", "regression"] = "classification",
    **options: Unpack[_SourceOptions],
) -> SourceResult | SourceTimeResult:
    """Decode class labels from source estimates at each time, without retraining.

    All sources together are decoded at each time point, or with `src` and `radius` the
    neighbourhood of each vertex (searchlight). A kernel Fisher discriminant analysis is
    cross-validated at each position, for the observed labels and for permuted ones. All
    positions share folds and permutations.

    Parameters
    ----------
    stcs : iterable of mne.SourceEstimate, one per trial
        A list, or a generator such as :func:`mne.minimum_norm.apply_inverse_epochs`
        returns with ``return_generator=True``, which is consumed one by one. Also
        volume, mixed and vector estimates, for which each vertex has three features.
        All must have the same vertices, times and subject.
    src : mne.SourceSpaces | path | None
        The source space in which the estimates were computed, ``inverse["src"]``, or
        for morphed estimates that of the target subject; vertices are matched by
        number. For a searchlight, together with `radius`. None: all sources together.
    radius : float | None
        Radius of the neighbourhoods in mm: on the cortex, distance along the mesh; in
        volumes, radius of spheres. Hemispheres and volumes are never mixed.
    reg
        ... Each time point has its own lambda.
    n_permutations
        ... All time points share them.

    Returns
    -------
    result : SourceResult | SourceTimeResult
        ``.scores`` of the first metric at each position, ``.metrics``, ``.null`` (P,
        positions...), ``.predictions`` (positions..., n_trials), ``.chance``,
        ``.pvalues(correction=)``, ``.plot()``, ``.to_dataframe()``, ``.save()`` and
        ``.times`` (s; the centres of windows). The positions are

        * for all sources together (n_times,), a SourceResult, whose ``.patterns()`` are
          source estimates;
        * for a searchlight (n_vertices, n_times), a SourceTimeResult with
          ``.vertices``, ``.adjacency``, which clusters follow, and ``.to_stc(name)``.

    Raises
    ------
    ValueError, TypeError
        On source estimates that differ in form, are not finite, or do not match the
        number of labels, a source space of other vertices or another subject, `src`
        without `radius` or `radius` without `src`, data that are flat at some position,
        checkpoints of other data or arguments, maps too large for memory, and anything
        that :func:`cross_validate` rejects.

    See Also
    --------
    generalize_arrays : Time generalization, also of sources.

    Notes
    -----
    The data are kept once, as n_trials x n_features x n_times numbers of 8 bytes, or of
    4 if all estimates are in single precision (computations use double precision in
    both cases). Source estimates from a generator are released one by one; those in a
    list need the same memory again, since you keep them. 300 trials of 8,000 vertices
    at 100 times are 1.9 GB, or 1 GB. With several workers, joblib puts a copy into
    shared memory (or its temporary folder), which all of them read. A searchlight
    keeps, for each vertex and time, n_trials bytes of predictions, 8 bytes per metric
    and fold, and the permutations set by `null`.

    The unit of the estimates (about 1e-11 for currents in A m, and 1 for z-scores) does
    not matter: a relative `reg` adapts to it. For kernels with ``gamma=None``, which
    assume features of about unit variance, data are divided by their standard deviation
    over all (training) trials, vertices and times. A numeric gamma refers to the
    unscaled data.

    Depth weighting and noise normalisation scale vertices relative to each other, and
    so does ``preprocess="zscore"``: they determine the weight of each vertex.

    Examples
    --------
    When sources tell two classes apart:

    >>> import mne
    >>> import numpy as np
    >>> from mvpa_kfda import decode_sources, generalize_arrays
    >>> sphere = {"sphere": (0, 0, 0, 0.09), "verbose": False}
    >>> src = mne.setup_volume_source_space(pos=40.0, **sphere)
    >>> vertices, rng = [src[0]["vertno"]], np.random.default_rng(0)
    >>> y = rng.permutation(["face", "house"] * 20)
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
    procedure = Procedure.of(options | logged(options), keep_all=src is None)
    method, null = procedure.method, procedure.permuting.null
    predicted = taken(Predicted, options, task=task)
    if (src is None) != (radius is None):
        given, missing = ("radius", "src") if src is None else ("src", "radius")
        raise refusal("src and radius", given=given, missing=missing)
    if src is None and null != "auto":
        raise refusal("null over time", null=null)
    form, times, tstep, n_trials, read = open_sources(stcs, y)
    windows = taken(Windowing, options).cut(times, 1 / tstep)
    tstep *= windows.step
    kind, rows, fields, recorded, identity = SourceResult, {}, {}, {}, {}
    if src is not None:
        form, near, pairs = find_source_neighbours(form, src, radius)
        names, of_each = form.labels(), np.arange(form.n_values)
        features = near.indices[:, None] * len(of_each) + of_each
        members = near.indptr * len(of_each), features.ravel()
        shape = len(names), len(windows.starts)
        kind, recorded = SourceTimeResult, {"radius": float(radius)}
        rows = {
            "first": np.zeros(len(names), int),
            "names": np.char.add("vertex ", names),
            "channels": RaggedIndices(*members),
            "adjacency": partial(sensor_time_adjacency, pairs, *shape),
        }
        fields = {"vertices": names, "adjacency": pairs}
        identity = {"src and radius": members}
    positions = WindowPositions(None, windows, method.kernel, method.reg, **rows)
    with open_checkpoint(procedure.running.checkpoint) as kept:
        analysis = make_analysis(
            make_trials(y, n_trials, groups, confounds, train_on),
            procedure.resumed(kept),
            WindowPositions,
            positions.shape,
            predicted=predicted,
            with_patterns=method.kernel.is_linear
            and src is None
            and not predicted.of_values,
        )
        data = read()
        recorded |= {"n_features": data.shape[2], **windows.record()}
        if method.kernel.assumes_unit_scale:
            rescale(data, analysis.trials.train_mask)
        return decode(
            replace(positions, data=data),
            analysis,
            kind,
            parameters=recorded,
            checkpoint=kept,
            identity={"stcs": (data,), "times": (windows.times,)} | identity,
            times=windows.times,
            sources=form.pack() | {"tstep": tstep},
            **fields,
        )


# ------------------------------------------------------------ from one time to another


def generalize(
    trials,
    procedure,
    train,
    test,
    *,
    parameters,
    predicted,
    info=None,
    scale=None,
):
    """Train in windows of some data and test in windows of others.

    `train` and `test` are each data (n_samples, n_trials, p), perhaps the same array,
    and `Windows`. The data are used up. Epochs have the `info` of their channels,
    and their `scale`.
    """
    (data, windows), (data_test, windows_test) = train, test
    kernel, reg = procedure.method.kernel, procedure.method.reg
    with_folds = procedure.repeating.cv is not None or trials.groups is not None
    if trials.train_on is not None:
        parameters["train_on"] = trials.train_on.record
        if not with_folds:  # the others are as good as other trials
            mask, trials = trials.train_on.mask, trials.parted()
            data, data_test = (np.compress(x, data, 1) for x in (mask, ~mask))
            if info is not None:
                note_input("data", data.transpose(1, 2, 0))
                note_input("data_test", data_test.transpose(1, 2, 0))
    shape = len(windows.starts), len(windows_test.starts)
    analysis = make_analysis(
        trials,
        procedure,
        GeneralizationPositions,
        shape,
        predicted=predicted,
        with_patterns=info is not None and kernel.is_linear and not predicted.of_values,
    )
    arrays, fields = [data] if data_test is data else [data, data_test], {}
    if info is not None:
        apply, undo = fit_scaling(info, analysis.of_trained(data), scale, kernel)
        arrays = [apply(each) for each in arrays]
        kernel = for_channels(kernel, info["ch_names"])
        fields = {"undo": undo, "info_fif": pack_info(info)}
    average = analysis.parameters["average"]
    if average is not None and not kernel.is_linear:
        raise refusal("average: generalization", average=average, kernel=kernel)
    if kernel.shift_free:
        # This changes no kernel value that counts; a large offset would cost digits.
        mean = arrays[0].mean(axis=(0, 1))
        for each in arrays:
            each -= mean
    data, data_test = arrays[0], arrays[-1]
    kind = "plain" if len(arrays) == 1 else "same_trials"
    if analysis.samples.folds is None:
        kind = "other_trials"
    elif analysis.samples.train_mask is not None:
        kind = "cross_decoding"
    elif analysis.test_labels is not None:
        kind = "other_labels"
    tested = analysis.test_labels
    if tested is not None and predicted.of_values:
        tested = analysis.task.standardised(tested)
    times = windows.times, windows_test.times
    chosen, n_trained = analysis.samples.train_mask, len(analysis.samples.codes)
    n_trained = n_trained if chosen is None else int(chosen.sum())
    return decode(
        GeneralizationPositions(
            *(data, windows, kernel, reg),
            test=WindowPositions(data_test, windows_test, kernel, reg),
            test_labels=tested,
            exempt=exempt_cells(kind, *times),
        ),
        analysis,
        GeneralizationResult,
        parameters={"n_trained": n_trained, "mode": kind, **parameters},
        train_times=times[0],
        test_times=times[1],
        y_test=analysis.tested,
        **fields,
    )


class _ArrayOptions(ArrayOptions, total=False):
    """What `generalize_arrays` may be told, where positions are pairs of times.

    Parameters
    ----------
    kernel
        ... A kernel's width is that of the training time.
    reg
        ... Each training time has its own lambda.
    cv
        ... Not for tests on other trials.
    n_permutations
        ... They are the same for the whole map. In cross-validation each permutation's
        predictions are scored twice: with the tested labels permuted along with the
        trained ones, and with the tested labels as they are, by models with no larger
        penalty than ``reg=0.3``. A cell passes if it passes both
        (:meth:`GeneralizationResult.pvalues` says why). For tests on other trials,
        and with `train_on`, only the training labels are permuted: no trial is both
        trained with and tested, and the hypothesis is that what was trained with says
        nothing about what is tested, which may well be decodable by itself.
    null
        ... A position is a pair of times, and in cross-validation the scores are twice
        as many: 1 GiB are 1000 permutations of 366 x 366 times.
    average
        ... For linear kernels, and not for tests on other trials or other labels.
    keep_class_scores
        ... They are those of the diagonal, where training and test time are the same.
    preprocess
        ... What is learned at a training time is applied at every test time.
    """

    null: KeptNull


class _EpochOptions(ChannelOptions, TimeOptions, total=False):
    """What `generalize_epochs` may be told."""

    null: KeptNull


@decodes(
    _ArrayOptions,
    *(_ArrayOptions, Predicted),
    data=("y_test", "same_trials", "tmin_test"),
)
def generalize_arrays(
    X: ArrayLike,
    y: ArrayLike,
    X_test: ArrayLike | None = None,
    *,
    y_test: ArrayLike | None = None,
    same_trials: bool | None = None,
    sfreq: float = 1.0,
    tmin: float = 0.0,
    tmin_test: float | None = None,
    groups: ArrayLike | None = None,
    confounds: Confounds = None,
    train_on: ArrayLike | None = None,
    task: Literal["classification", "regression"] = "classification",
    **options: Unpack[_ArrayOptions],
) -> GeneralizationResult:
    """Train at each time point of an array and test at all time points.

    Like :func:`generalize_epochs`, but for data other than MNE-Python epochs, without
    handling of channels.

    Parameters
    ----------
    X : array_like, shape (n_trials, n_features, n_times)
        Real, finite data to train on, and to test on if there is no `X_test`.
    X_test : array_like, shape (n_test_trials, n_features, n_test_times) | None
        Data to test on, with the features of `X`: separate trials, tested with models
        trained on all of `X`, without folds, or the same trials in the same order,
        cross-validated.
    y_test : array_like, shape (n_test_trials,) | None
        Labels to be predicted. None: those of `y`, for the same trials.
    same_trials : bool | None
        Whether `X_test` contains the trials of `X` in the same order, at other times or
        processed differently. None and False: separate trials, of which none may be a
        copy of a trial of `X`; with False, a few that are equal by chance may be.
    sfreq : float
        Samples per second. With 1, times and windows are in samples. `X_test` has the
        same.
    tmin, tmin_test : float
        Time of the first sample of `X` and `X_test` in seconds; `tmin_test` None is
        `tmin`.
    groups
        ... For the trials of `X`.

    Returns
    -------
    result : GeneralizationResult
        ``.scores`` (n_train_times, n_test_times) of the first metric, ``.train_times``
        and ``.test_times`` (s), ``.metrics``, ``.null`` (P, n_train_times,
        n_test_times), ``.predictions`` (n_train_times, n_test_times, n_tested),
        ``.chance``, ``.pvalues(correction=)``, ``.diagonal()``, ``.plot()``,
        ``.to_dataframe()``, ``.save()``.

    Raises
    ------
    ValueError, TypeError
        On features or labels that do not match, and anything that
        :func:`generalize_epochs` rejects.

    Examples
    --------
    >>> import numpy as np
    >>> from mvpa_kfda import generalize_arrays
    >>> rng = np.random.default_rng(1)
    >>> y = rng.permutation([0, 1] * 20)
    >>> X, X_new = rng.normal(size=(2, 40, 8, 5))  # trials, features, times
    >>> X[:, 0, 3:] += 3 * y[:, None]
    >>> X_new[:, 0, :2] += 3 * y[:, None]
    >>> result = generalize_arrays(X, y, X_new, y_test=y)
    >>> (result.scores > 0.8).astype(int)
    array([[0, 0, 0, 0, 0],
           [0, 0, 0, 0, 0],
           [0, 0, 0, 0, 0],
           [1, 1, 0, 0, 0],
           [1, 1, 0, 0, 0]])
    """
    procedure, predicted = Procedure.of(options), taken(Predicted, options, task=task)
    data = data_test = array_samples_first(X, "X")
    windows = windows_test = cut_array(data, sfreq, tmin, options)
    trials = make_trials(y, data.shape[1], groups, confounds, train_on)
    if train_on is not None:
        check_alone("X", X_test, y_test)
    if X_test is None:
        check_no_same_trials(same_trials, "X_test")
        if tmin_test is not None:
            raise ValueError("tmin_test is the time of X_test, but no X_test is given.")
        trials = replace(trials, y_test=y_test)
    else:
        data_test = array_samples_first(X_test, "X_test", data.shape[2])
        tmin_test = tmin if tmin_test is None else check_finite("tmin_test", tmin_test)
        times, times_test = (
            start + np.arange(len(each)) / sfreq
            for start, each in ((tmin, data), (tmin_test, data_test))
        )
        both = data, times, data_test, times_test
        if check_same_trials(same_trials, *both, ("X", "X_test")):
            data_test = without_copy(*both)
            trials = replace(trials, y_test=y_test)
        else:
            others = Trials(y=y_test, n=data_test.shape[1])
            trials = replace(trials, test=others)
        windows_test = cut_array(data_test, sfreq, tmin_test, options)
    return generalize(
        trials,
        procedure,
        (data, windows),
        (data_test, windows_test),
        parameters={"n_features": data.shape[2], **windows.record()},
        predicted=predicted,
    )


@decodes(
    _EpochOptions,
    *(TrialOptions, Channels, LoggedJobOptions, _ArrayOptions, Predicted),
    data=("test_epochs", "y_test", "same_trials"),
)
def generalize_epochs(
    epochs: BaseEpochs,
    y: EpochLabels = None,
    *,
    test_epochs: BaseEpochs | None = None,
    y_test: EpochLabels = None,
    train_on: ArrayLike | str | None = None,
    same_trials: bool | None = None,
    groups: ArrayLike | None = None,
    confounds: Confounds = None,
    task: Literal["classification", "regression"] = "classification",
    **options: Unpack[_EpochOptions],
) -> GeneralizationResult:
    r"""Train at each time point of epochs and test at all time points.

    Temporal generalization [1]_ shows whether a classifier trained at one time
    generalizes to others. The models of all folds at each training time, for the
    observed labels and for permuted ones, follow from one matrix per training time.

    Test data:

    - By default the same epochs, cross-validated. The diagonal of the map equals the
      result of :func:`decode_epochs`.
    - `y_test`: another labelling of the same epochs, cross-validated with the same
      folds: trained on `y`, scored on `y_test`.
    - `test_epochs` with separate trials (another condition, session or modality):
      trained on all of `epochs`, tested on all of `test_epochs`, without folds.
    - `test_epochs` with the same trials in the same order, for example time-locked to
      the response (``same_trials=True``): cross-validated, so that no trial is used for
      both training and testing.
    - `train_on`: trained on some epochs, tested on the others (cross-decoding): without
      folds, or with `groups` or `cv` so that whole runs are left out.

    Parameters
    ----------
    epochs : mne.Epochs
        Epochs (or EpochsArray) with real, finite data. They are not changed.
    test_epochs : mne.Epochs | None
        Epochs to test on, at the same sampling rate. Channels are matched by name, and
        channels that are bad in either stay out; times and order of channels may
        differ.
    y_test : None | str | array_like, shape (n_test_epochs,) | list of str | dict
        Labels to be predicted. None: for separate trials, found like those of `epochs`
        (by event names, tags or the same metadata column); for the same trials, those
        of `epochs`. With class names, all other test epochs are left out. If the same
        epochs are used for training and testing, those with a class in both `y` and
        `y_test` remain. Otherwise each selects from its own epochs, as if only these
        had been given: with ``{"face": "face/left", "house": "house/left"}`` as `y`,
        the same names for ``"face/right"`` and ``"house/right"`` as `y_test`, and
        ``test_epochs=epochs``, one side is used for training and the other for testing.
    same_trials : bool | None
        Whether epoch i of `test_epochs` is the same trial as epoch i of `epochs`, at
        other times or processed differently. None and False: separate trials, of which
        none may be a copy of a trial of `epochs`. None also refuses epochs that have
        the events of `epochs` or overlap with them in time; with False, a few may be
        equal by chance.
    groups : None | str | array_like, shape (n_epochs,)
        ... The name of a metadata column of `epochs`, or one value per epoch, including
        those that `y` leaves out.
    scale
        ... Estimated from `epochs` and also applied to test epochs.
    dtype
        ... It is for data whose mean over trials does not drift by many standard
        deviations.

    Returns
    -------
    result : GeneralizationResult
        ``.scores`` (n_train_times, n_test_times) of the first metric, ``.train_times``
        and ``.test_times`` (s), ``.metrics``, ``.null`` (P, n_train_times,
        n_test_times), ``.predictions`` (n_train_times, n_test_times, n_tested),
        ``.chance``, ``.pvalues(correction=)``, ``.diagonal()``, ``.patterns()``,
        ``.plot()``, ``.to_dataframe()``, ``.save()``. Where `y` or `y_test` name
        classes, ``.parameters["classes"]`` and ``["selected"]``, ``["classes_test"]``
        and ``["selected_test"]`` are as in :func:`decode_epochs`.

    Raises
    ------
    ValueError, TypeError
        On channels, sampling rates or labels that do not match, test trials that are
        or may be training trials, a query that selects no or all epochs, a map that
        does not fit into memory, and anything that :func:`decode_epochs` rejects.

    Notes
    -----
    With the residual maker :math:`M = I - G_t` of a training time, the model of a fold
    with test rows te has dual coefficients :math:`a = M \tilde T / \lambda`, where
    :math:`\tilde T` are the contrasts of the labels less the out-of-sample residuals
    of te. They are exactly zero at te. See :mod:`mvpa_kfda.kfda.transfer`.

    References
    ----------
    .. [1] King & Dehaene (2014). Characterizing the dynamics of mental representations:
       the temporal generalization method. Trends in Cognitive Sciences 18(4), 203-210.

    Examples
    --------
    >>> from mvpa_kfda import generalize_epochs, simulate_epochs
    >>> epochs = simulate_epochs(n_trials=90, random_state=0)
    >>> result = generalize_epochs(
    ...     epochs, step=0.05, cv=5, n_permutations=99, random_state=0
    ... )
    >>> result.scores.shape
    (21, 21)
    >>> bool(result.pvalues("cluster").min() < 0.05)
    True
    """
    procedure = Procedure.of(options | logged(options))
    time, channels = taken(Windowing, options), taken(Channels, options)
    predicted = taken(Predicted, options, task=task)
    known = {"groups": groups, "confounds": confounds, "train_on": train_on}
    others = {"test_epochs": test_epochs, "y_test": y_test, "same_trials": same_trials}
    train, data_test, times_test = read_pairs(
        epochs, y, channels.picks, **known, **others
    )
    windows = time.cut(train.times, train.sfreq)
    if predicted.of_values:
        _check_regression(train, y)
    return generalize(
        train.trials,
        procedure,
        (train.data, windows),
        (data_test, time.cut(times_test, train.sfreq)),
        parameters=record_epochs(train, channels.scale, windows),
        predicted=predicted,
        info=train.info,
        scale=channels.scale,
    )
