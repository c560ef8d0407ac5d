"""Decoding of MNE-Python epochs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypedDict, overload

import mne
import numpy as np
from numpy.typing import ArrayLike

from ..data.epochs import (
    EpochLabels,
    find_neighbours,
    fit_scaling,
    progress_wanted,
    read_epoch_data,
)
from ..data.trials import Confounds
from ..kfda.models import for_channels
from ..kfda.rowmaps import Adjacency
from ..results.decoding import TimeRegressionResult
from ..results.epochs import SensorTimeResult, TimeFrequencyResult, TimeResult
from ..results.patterns import pack_info
from ..utils.axes import AXES
from ..utils.checks import check_option
from .analysis import decode, make_analysis
from .positions import WindowPositions
from .procedure import (
    ClassOptions,
    ClassScoreOptions,
    LoggedJobOptions,
    Predicted,
    Procedure,
    Windowing,
    WindowOptions,
    decodes,
    taken,
)

if TYPE_CHECKING:
    from mne import BaseEpochs, Covariance
    from mne.time_frequency import AverageTFR, EpochsTFR
    from typing_extensions import Unpack

    Sensors = Adjacency | Literal["adjacency", True]
    # What type checkers think that Epochs.compute_tfr returns; MNE-Python has no types.
    Power = EpochsTFR | AverageTFR | tuple[Any, ...]


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


class EpochTrials:
    """What is known of trials that are epochs.

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


def logged(options):
    """Whether progress is wanted, for a level of MNE-Python's log."""
    return {"verbose": progress_wanted(options.get("verbose"))}


class _TrialOptions(TypedDict, total=False):
    """What is known of epochs beside their labels."""

    groups: ArrayLike | None
    confounds: Confounds
    train_on: ArrayLike | str | None


class _Options(
    _TrialOptions,
    ChannelOptions,
    WindowOptions,
    ClassOptions,
    LoggedJobOptions,
    ClassScoreOptions,
    total=False,
):
    """What `decode_epochs` may be told, whatever it decodes."""


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


@decodes(_Options, EpochTrials, Channels, Predicted, LoggedJobOptions)
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
    task
        ... So are `sensors` and power.

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
        * for regression (n_times,), a TimeRegressionResult, whose predictions are
          continuous values.

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
    known = {name: options.get(name) for name in _TrialOptions.__annotations__}
    if task == "regression" and sensors is not None:
        raise ValueError("task='regression' has no sensors. Leave it out.")
    recording = read_epoch_data(epochs, y, channels.picks, power=True, **known)
    if task == "regression":
        _check_regression(recording, y)
    windows = taken(Windowing, options).cut(recording.times, recording.sfreq)
    kind, rows, coordinates = _lay_out(recording, sensors, channels.scale, windows)
    positions = WindowPositions(None, windows, method.kernel, method.reg, **rows)
    if task == "regression":
        kind, coordinates = TimeRegressionResult, {}
    analysis = make_analysis(
        recording.trials,
        procedure,
        WindowPositions,
        positions.shape,
        task=task,
        with_patterns=method.kernel.is_linear and sensors is None,
    )
    data, info = recording.data, recording.info
    scaling = fit_scaling(
        info, analysis.of_trained(data), channels.scale, method.kernel
    )
    data = scaling.apply(data)
    data = data.reshape(-1, *data.shape[-2:])
    kernel = for_channels(method.kernel, info["ch_names"])
    data, kernel = analysis.average(data, kernel, axis=1)
    return decode(
        replace(positions, data=data, kernel=kernel),
        analysis,
        kind,
        parameters=record_epochs(recording, channels.scale, windows),
        undo=scaling.undo,
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
    """Refuse what regression over time has not: power, and class names."""
    if recording.freqs is not None:
        raise ValueError(
            "task='regression' is for epochs, not for power at several frequencies. "
            "Pick a frequency and make epochs of its power, mne.EpochsArray."
        )
    if y is None:
        raise ValueError(
            "task='regression' needs the values to predict: y=, one number for each "
            "epoch or the name of a column of epochs.metadata."
        )
    if "classes" in recording.record:
        raise ValueError(
            "task='regression' predicts numbers, and y names classes of events. Pass "
            "one number for each epoch or the name of a column of epochs.metadata."
        )


def _lay_out(recording, sensors, scale, windows):
    """A map's class of result, fields of its positions, and its coordinates."""
    info, freqs = recording.info, recording.freqs
    whitened, kept = isinstance(scale, mne.Covariance), {"info_fif": pack_info(info)}
    if freqs is not None and sensors is not None:
        raise ValueError(
            "sensors works on mne.Epochs only; an EpochsTFR object is decoded at each "
            "frequency and time. Leave sensors out, or choose channels with picks."
        )
    if freqs is not None:
        if whitened:
            raise ValueError(
                "A noise covariance in scale whitens signals, not their power. Use "
                "scale='auto' or 'channel', or whiten the epochs before computing "
                "power."
            )
        # One frequency after the other along the samples.
        first = len(recording.times) * np.arange(len(freqs))
        names = tuple(AXES["freqs"].place.format(f"{x:g}") for x in freqs)
        rows = {"first": first, "names": names}
        return TimeFrequencyResult, rows, kept | {"freqs": freqs}
    if sensors is None:
        return TimeResult, {}, kept
    if whitened:
        raise ValueError(
            "A noise covariance in scale mixes each sensor with all others, so that "
            "neighbourhoods are no longer local. Use scale='auto' or 'channel'."
        )
    pairs = find_neighbours(info, sensors)
    near = np.eye(len(info["ch_names"]), dtype=bool)
    near[tuple(pairs)] = near[tuple(pairs[::-1])] = True
    rows = {
        "first": np.zeros(len(near), int),
        "names": tuple(map(AXES["ch_names"].place.format, info["ch_names"])),
        "channels": tuple(np.flatnonzero(row) for row in near),
    }
    kept |= {"ch_names": info["ch_names"], "adjacency": pairs}
    return SensorTimeResult, rows, kept
