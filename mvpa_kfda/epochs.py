"""Decoding of MNE-Python epochs."""

import os

import mne
import numpy as np

from ._analysis import make_analysis
from ._checks import check_array, check_jobs, check_option, check_positive
from .hat import check_reg
from .kernels import Precomputed, check_kernel
from .results import TimeResult
from .search import WindowSource, run

_SCALES = ("auto", "channel", None)
#: The names of MNE-Python's levels of verbosity.
_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")


def decode_epochs(
    epochs,
    y=None,
    *,
    groups=None,
    picks=None,
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
):
    """Decode class labels from epochs at every time point, without retraining.

    A kernel Fisher discriminant analysis is cross-validated at every time point, or in
    windows that slide over the epoch, for the observed labels and for permuted ones.
    Folds and permutations are the same at all times, so that the permutations carry the
    dependence between time points and correct for many of them.

    Parameters
    ----------
    epochs : mne.Epochs
        Epochs (or EpochsArray) with real, finite data. They are not changed.
    y : None | str | array_like, shape (n_epochs,)
        None: the names in ``epochs.event_id`` are the classes. A string: a column of
        ``epochs.metadata``. Else one label per epoch.
    groups : None | str | array_like, shape (n_epochs,)
        Runs, sessions or subjects, as a metadata column's name or an array; see
        :func:`cross_validate`.
    picks : str | list | None
        Channels, as in MNE-Python. None takes all data channels (of all types). Bad
        channels always stay out; misc channels are used when picked.
    scale : "auto" | "channel" | mne.Covariance | None
        How to bring channels to one scale. ``"auto"``: when the channels are of
        several types, each type is divided by its standard deviation over epochs,
        channels and times; channels of a single type stay in their unit (except for a
        kernel with ``gamma=None``, which presumes features of about unit variance).
        ``"channel"``: each channel is divided by its own standard deviation. A noise
        covariance: channels are whitened with it. None: nothing. Standard deviations
        are computed once over all epochs, without labels.
    window : float | None
        Length of a sliding window in seconds, rounded to samples. None: one sample.
    step : float | None
        Distance between windows in seconds, rounded to samples. None: one sample.
    window_mode : "mean" | "concatenate"
        Average the samples in a window, or use all of them as features.
    kernel : str | kernel object | callable
        See :func:`cross_validate`; not ``"precomputed"``.
    reg : float | Ridge
        See :func:`cross_validate`; a float is relative to each time point's kernel.
    cv : None | int | splitter | iterable of (train, test)
        See :func:`cross_validate`.
    scoring : str | list of str
        See :func:`cross_validate`.
    n_permutations : int
        Label permutations P, the same at every time point.
    permute : "auto" | "within_folds" | "within_groups" | "groups" | "free"
        What may be exchanged, see :func:`mvpa_kfda.permutation.permute_labels`.
    random_state : int | Generator | RandomState | None
        Seed of the permutations.
    n_jobs : int | None
        Workers over blocks of time points, as in joblib. The result does not depend
        on it. Starting workers takes about a second, so they pay off in longer runs.
    dtype : "float64" | "float32"
        Precision in which labels are processed, see :func:`cross_validate`.
    verbose : bool | str | int | None
        True (or a level of INFO or below) shows a progress bar, False none, None only
        on runs of more than a few seconds.

    Returns
    -------
    result : TimeResult
        ``.times`` (s; the centres of windows), ``.scores`` (n_times,) of the first
        metric, ``.metrics``, ``.null`` (P, n_times), ``.predictions``
        (n_times, n_epochs), ``.chance``, ``.pvalues(correction=)``, ``.plot()``,
        ``.to_dataframe()``, ``.save()``.

    Raises
    ------
    ValueError, TypeError
        On empty epochs, data that is complex or not finite, an unknown metadata column,
        a window longer than the epoch, data that is flat at some time, and all that
        :func:`cross_validate` refuses.

    Examples
    --------
    >>> from mvpa_kfda import decode_epochs, simulate_epochs
    >>> epochs = simulate_epochs(random_state=0)
    >>> result = decode_epochs(epochs, n_permutations=100, random_state=0)
    >>> bool(result.pvalues("max").min() < 0.05)
    True
    """
    kernel, reg = _check_kernel(kernel), check_reg(reg)
    check_option("window_mode", window_mode, ("mean", "concatenate"))
    n_jobs, progress = check_jobs(n_jobs), _progress_wanted(verbose)
    epochs = _check_epochs(epochs)
    analysis = make_analysis(
        _per_epoch(epochs, y, "y"),
        len(epochs),
        groups=_per_epoch(epochs, groups, "groups"),
        kernel=kernel,
        reg=reg,
        cv=cv,
        scoring=scoring,
        n_permutations=n_permutations,
        permute=permute,
        random_state=random_state,
        dtype=dtype,
    )
    starts, width, step = _windows(epochs, window, step)
    info, data = _scaled_data(epochs, picks, scale, kernel)
    times = np.array([epochs.times[i : i + width].mean() for i in starts])
    source = WindowSource(data, starts, width, window_mode, times, kernel, reg)
    _check_not_flat(source)
    outcome = run(source, analysis.task, n_jobs, progress)
    parameters = {
        **analysis.parameters,
        "ch_names": list(info["ch_names"]),
        "scale": scale if isinstance(scale, str | None) else "covariance",
        "window": width / epochs.info["sfreq"],
        "step": step / epochs.info["sfreq"],
        "window_mode": window_mode,
        "sfreq": float(epochs.info["sfreq"]),
    }
    return analysis.result(TimeResult, outcome, times=times, parameters=parameters)


def _check_kernel(kernel):
    """Return a kernel object that computes from features."""
    kernel = check_kernel(kernel)
    if isinstance(kernel, Precomputed):
        raise ValueError(
            "Invalid value for 'kernel': 'precomputed'. Epochs hold features; give a "
            "kernel to compute from them, or call cross_validate with your own matrix."
        )
    return kernel


def _check_epochs(epochs):
    """Return loaded, non-empty epochs; the given object stays as it is."""
    if not isinstance(epochs, mne.BaseEpochs):
        hint = (
            " Read the file with mne.read_epochs first."
            if isinstance(epochs, str | os.PathLike)
            else " For plain arrays there is cross_validate."
        )
        raise TypeError(
            f"epochs must be an mne.Epochs object; got {type(epochs).__name__}.{hint}"
        )
    if not epochs.preload:
        with mne.use_log_level("WARNING"):
            epochs = epochs.copy().load_data()
    if len(epochs) == 0:
        raise ValueError(
            "epochs is empty: no epoch is left to decode. epochs.drop_log tells why "
            "epochs were dropped."
        )
    return epochs


def _per_epoch(epochs, values, name):
    """Return labels or groups: from event_id, a metadata column, or as given."""
    if isinstance(values, str):
        return _metadata_column(epochs, values, name)
    if values is None and name == "y":
        return _event_names(epochs)
    return values


def _event_names(epochs):
    """Return the name of every epoch's event."""
    names = {code: event for event, code in epochs.event_id.items()}
    codes = epochs.events[:, 2]
    unknown = sorted(set(codes.tolist()) - set(names))
    if unknown:
        raise ValueError(
            f"epochs.event_id has no name for the event codes {unknown} in "
            "epochs.events. Give every code a name there, or give y."
        )
    return np.array([names[code] for code in codes])


def _metadata_column(epochs, column, name):
    """Return a column of the metadata."""
    metadata = epochs.metadata
    if metadata is None:
        raise ValueError(
            f"{name}={column!r} names a metadata column, but these epochs have no "
            f"metadata. Give {name} as an array with one value per epoch."
        )
    if column not in metadata.columns:
        columns = ", ".join(repr(str(c)) for c in metadata.columns)
        raise ValueError(
            f"{name}={column!r} is not a metadata column. The columns are: {columns}."
        )
    return metadata[column].to_numpy()


def _windows(epochs, window, step):
    """Return each window's first sample, and samples per window and per step."""
    sfreq, n_times = epochs.info["sfreq"], len(epochs.times)
    lengths = {}
    for name, seconds in (("window", window), ("step", step)):
        if seconds is None:
            lengths[name] = 1
            continue
        check_positive(name, seconds, hint=" It is in seconds.")
        lengths[name] = max(1, int(seconds * sfreq + 0.5 + 1e-9))  # half goes up
    width = lengths["window"]
    if width > n_times:
        raise ValueError(
            f"window={window} s is {width} samples at {sfreq:g} Hz, longer than the "
            f"epoch: {n_times} samples, {n_times / sfreq:g} s."
        )
    step = lengths["step"]
    return np.arange(0, n_times - width + 1, step), width, step


def _pick(info, picks):
    """Return the indices of the channels to use; bad ones stay out."""
    # Picking from a one-sample stand-in leaves the rules to MNE and copies no data.
    stand_in = mne.EvokedArray(np.zeros((len(info["ch_names"]), 1)), info.copy())
    good, why = [], ""
    try:
        stand_in.pick("data" if picks is None else picks, verbose=False)
        # MNE-Python keeps bad channels that are named one by one.
        good = [name for name in stand_in.ch_names if name not in info["bads"]]
    except (IndexError, ValueError) as error:
        why = "" if picks is None else f" MNE-Python says: {error}"
    if not good:
        found = sorted(set(info.get_channel_types()))
        raise ValueError(
            f"No good channels for picks={picks!r}; the channel types are: "
            f"{', '.join(found)}; bad channels: {info['bads']}. Name the channels or "
            f"types to use in picks, e.g. picks={found[0]!r}.{why}"
        )
    return [info["ch_names"].index(name) for name in good]


def _scaled_data(epochs, picks, scale, kernel):
    """Return the picked info and the data (n_times, n_epochs, n_channels), scaled."""
    if not isinstance(scale, mne.Covariance):
        check_option("scale", scale, _SCALES, also=("a noise covariance",))
    picks = _pick(epochs.info, picks)
    info = mne.pick_info(epochs.info, picks)
    data = check_array(epochs.get_data(picks=picks), "The epochs' data", ndim=3)
    # Samples first, so that the features of a time point are contiguous.
    data = np.ascontiguousarray(data.transpose(2, 0, 1))
    if isinstance(scale, mne.Covariance):
        return info, data @ _whitener(scale, info).T
    if scale == "channel":
        data /= _deviation(data, axis=(0, 1))
    elif scale == "auto":
        types = np.array(info.get_channel_types())
        if len(set(types)) > 1 or kernel.assumes_unit_scale:
            for kind in set(types):
                data[:, :, types == kind] /= _deviation(data[:, :, types == kind])
    return info, data


def _check_not_flat(source):
    """Refuse windows in which all epochs are alike, before anything is computed."""
    flat = (source.data == source.data[:, :1]).all(axis=(1, 2))
    for position, start in enumerate(source.starts):
        if flat[start : start + source.width].all():
            raise ValueError(
                f"{source.where(position)}The trials do not differ: flat data, or a "
                "baseline of one sample. Leave such times out with epochs.crop."
            )


def _deviation(data, axis=None):
    """Return standard deviations, and 1 for what is flat up to rounding."""
    deviation = data.std(axis=axis)
    rounding = 1e-12 * np.abs(data).max(axis=axis)
    return np.where(deviation > rounding, deviation, 1.0)


def _whitener(covariance, info):
    """Return the whitening matrix (n_channels, n_channels) of a noise covariance."""
    missing = [name for name in info["ch_names"] if name not in covariance.ch_names]
    if missing:
        raise ValueError(
            f"The noise covariance in scale lacks {len(missing)} of the "
            f"{len(info['ch_names'])} channels, e.g. {missing[0]!r}. Pick the channels "
            "it has, or compute it from these epochs."
        )
    data = _pick(info, None)
    others = [name for i, name in enumerate(info["ch_names"]) if i not in data]
    if others:
        raise ValueError(
            "A noise covariance in scale whitens data channels only; "
            f"{', '.join(others)} in picks cannot be whitened. Leave them out of picks "
            "or use scale='auto'."
        )
    return mne.cov.compute_whitener(covariance, info, verbose=False)[0]


def _progress_wanted(verbose):
    """Return MNE's verbose as yes, no or None."""
    if isinstance(verbose, str):
        check_option("verbose", verbose.upper(), _LEVELS)
        return verbose.upper() in ("DEBUG", "INFO")
    if verbose is None or isinstance(verbose, bool):
        return verbose
    return verbose <= 20  # the number of the INFO level
