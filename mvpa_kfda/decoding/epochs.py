"""Decoding of MNE-Python epochs."""

import mne
import numpy as np
from mne.time_frequency import EpochsTFR

from ..data.classes import choose_epochs, names_classes
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
from ..kfda.models import for_channels, resolve_method
from ..results.epochs import SensorTimeResult, TimeFrequencyResult, TimeResult
from ..results.patterns import pack_info
from ..utils.checks import check_jobs, check_option
from .analysis import decode
from .positions import WindowPositions, cut_windows
from .regression import TASKS, refuse_for_regression


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
    reg=0.3,
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
        Epochs (or EpochsArray) with real, finite data, or the power of epochs at
        several frequencies (also an EpochsTFRArray). They are not changed.
    y : None | str | array_like, shape (n_epochs,) | list of str | dict
        None: the names in ``epochs.event_id`` are the classes. A string: a column of
        ``epochs.metadata``. An array or list with one label per epoch. A list of fewer
        names, ``["face", "house"]``: each is a class, with the events that have this
        name or tag as in ``epochs["face"]``, say ``"face/left"`` and ``"face/right"``.
        A dict names the classes: ``{"animate": ["face", "body"], "inanimate":
        "house"}``. Epochs of no class are left out; an event of two classes is an
        error.
    groups : None | str | array_like, shape (n_epochs,)
        Runs, sessions or subjects, as a metadata column's name or an array for all
        epochs, also those that `y` leaves out; see :func:`cross_validate`.
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
        Not for power.
    scale : "auto" | "channel" | mne.Covariance | None
        How to bring channels to one scale. ``"auto"``: when the channels are of
        several types, each type is divided by its standard deviation over epochs,
        channels and times; channels of a single type stay in their unit (except for a
        kernel with ``gamma=None``, which presumes features of about unit variance).
        ``"channel"``: each channel is divided by its own standard deviation. A noise
        covariance: channels are whitened with it; not with `sensors`, whose
        neighbourhoods would not stay local, and not for power. None: nothing.
        Standard deviations are computed once over all epochs, without labels, and
        all picked channels; of power at each frequency by itself.
    window : float | None
        Length of a sliding window in seconds, rounded to samples. None: one sample.
    step : float | None
        Distance between windows in seconds, rounded to samples. None: one sample.
    window_mode : "mean" | "concatenate"
        Average the samples in a window, or use all of them as features.
    kernel : str | kernel object | callable | list of these
        See :func:`cross_validate`; not ``"precomputed"``. :class:`GraphSmooth` makes
        weights smooth over neighbouring channels.
    reg : float | str | penalty object
        See :func:`cross_validate`; a float is relative to each position's kernel.
    cv : None | int | splitter | iterable of (train, test)
        See :func:`cross_validate`.
    scoring : str | list of str
        See :func:`cross_validate`.
    n_permutations : int
        Label permutations P, the same at every position.
    permute : "auto" | "within_folds" | "within_groups" | "groups" | "free"
        What may be exchanged: :func:`mvpa_kfda.inference.permutation.permute_labels`.
    random_state : int | Generator | RandomState | None
        Seed of the permutations.
    n_jobs : int | None
        Workers over blocks of positions, as in joblib. The result does not depend
        on it. Starting workers takes about a second, so they pay off in longer runs.
    dtype : "float64" | "float32"
        Precision in which labels are processed, see :func:`cross_validate`.
    verbose : bool | str | int | None
        True (or a level of INFO or below) shows a progress bar, False none, None only
        on runs of more than a few seconds.
    n_components : int | None
        How many discriminants to classify by, see :func:`cross_validate`.
    approx : Nystrom | None
        Landmarks that approximate the kernel, see :func:`cross_validate`.
    average : int | None
        How many trials to average into pseudo-trials, see :func:`cross_validate`.
    task : "classification" | "regression"
        ``"regression"`` predicts continuous values, reaction times say, at every time
        point, see :func:`regress`: y is a metadata column or one number per epoch, and
        the score ``"r2"`` unless `scoring` names another one of regression.

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
    if task == "regression":
        _check_regression(epochs, y, sensors)
    chosen = choose_epochs(epochs, y, groups)
    epochs = chosen.epochs
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
        average=average,
        numbers=chosen.numbers,
    )
    sfreq = sampling_rate(epochs, window, step)
    windows = cut_windows(epochs.times, sfreq, window, step)
    picks = pick_channels(epochs.info, picks)
    info = mne.pick_info(epochs.info, picks)
    kind, rows, coordinates = _lay_out(epochs, info, sensors, windows.starts, kind)
    data = samples_first(epochs, picks)
    scaling = fit_scaling(info, data, scale, kernel)
    data = scaling.apply(data).reshape(-1, *data.shape[-2:])
    data, kernel = analysis.average(
        data, for_channels(kernel, info["ch_names"]), axis=1
    )
    return decode(
        WindowPositions(
            data=data,
            kernel=kernel,
            reg=reg,
            width=windows.width,
            mode=window_mode,
            times=windows.times,
            **rows,
        ),
        analysis,
        kind,
        n_jobs=n_jobs,
        verbose=progress,
        parameters=_record(info, scale, windows, window_mode, sfreq) | chosen.record,
        undo=scaling.undo,
        times=windows.times,
        **coordinates,
    )


def _record(info, scale, windows, window_mode, sfreq):
    """Return what a result records about channels and windows."""
    return {
        "ch_names": list(info["ch_names"]),
        "scale": scale_name(scale),
        "window": windows.width / sfreq,
        "step": windows.step / sfreq,
        "window_mode": window_mode,
        "sfreq": sfreq,
    }


def _check_regression(epochs, y, sensors):
    """Refuse what regression over time has not: power, and class names."""
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
