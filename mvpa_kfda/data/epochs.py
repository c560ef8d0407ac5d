"""What the functions for MNE-Python's epochs take in: labels, channels, scales."""

from dataclasses import dataclass
from numbers import Integral

import mne
import numpy as np
from mne.time_frequency import EpochsTFR
from scipy import sparse

from ..utils.advice import advice, described
from ..utils.checks import check_array, check_option, quoted, warn_of_angles
from ..utils.fingerprints import note_input

_SCALES = ("auto", "channel", None)
#: The names of MNE-Python's levels of verbosity.
_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")


def check_epochs(epochs, name="epochs", power=False):
    """Return loaded, non-empty epochs, or power if that will do; the given stay."""
    if not isinstance(epochs, (mne.BaseEpochs, EpochsTFR) if power else mne.BaseEpochs):
        allowed = "mne.Epochs or EpochsTFR" if power else "mne.Epochs"
        raise TypeError(
            f"{name} must be an {allowed} object; got {described(epochs)}."
            f"{advice(epochs)}"
        )
    if not epochs.preload:
        with mne.use_log_level("WARNING"):
            epochs = epochs.copy().load_data()
    if len(epochs) == 0:
        raise ValueError(
            f"{name} is empty: no epoch is left to decode. {name}.drop_log tells why "
            "epochs were dropped."
        )
    return epochs


def per_epoch(epochs, values, name, owner="epochs"):
    """Return labels or groups: from event_id, a metadata column, or as given."""
    if isinstance(values, str):
        return _metadata_column(epochs, values, name, owner)
    if values is None and name in ("y", "y_test"):
        return _event_names(epochs, name, owner)
    return values


def _event_names(epochs, name, owner):
    """Return the name of every epoch's event."""
    names = {code: event for event, code in epochs.event_id.items()}
    codes = epochs.events[:, 2]
    unknown = sorted(set(codes.tolist()) - set(names))
    if unknown:
        raise ValueError(
            f"{owner}.event_id has no name for the event codes {unknown} in "
            f"{owner}.events. Name every code there, or pass {name}."
        )
    return np.array([names[code] for code in codes])


def _metadata_column(epochs, column, name, owner):
    """Return a column of the metadata."""
    metadata = epochs.metadata
    if metadata is None:
        whose = "these epochs have" if owner == "epochs" else f"{owner} has"
        raise ValueError(
            f"{name}={column!r} names a metadata column, but {whose} no metadata. Pass "
            f"{name} as an array with one value per epoch."
        )
    if column not in metadata.columns:
        of = "" if owner == "epochs" else f" of {owner}"
        raise ValueError(
            f"{name}={column!r} is not a metadata column{of}. The columns are: "
            f"{quoted(map(str, metadata.columns))}."
        )
    return metadata[column].to_numpy()


#: Channels that record the noise of the room. For MNE-Python they are data, too.
_REFERENCE = "ref_meg"
#: How users ask for all data channels.
_ALL = ("data", ["data"])


def _picked(info, picks):
    """Return the names of picked channels, and of the references left out of all."""
    # Picking from a one-sample stand-in leaves the rules to MNE and copies no data.
    stand_in = mne.EvokedArray(np.zeros((len(info["ch_names"]), 1)), info.copy())
    stand_in.pick("data" if picks is None else picks, verbose=False)
    names = stand_in.ch_names
    if picks is not None and not (isinstance(picks, str | list) and picks in _ALL):
        return names, []
    kinds = dict(zip(names, stand_in.get_channel_types(), strict=True))
    references = [name for name in names if kinds[name] == _REFERENCE]
    return [name for name in names if name not in references], references


def picked_channels(info, picks):
    """Return the names of picked channels, bad ones too; none if there are none."""
    try:
        return _picked(info, picks)[0]
    except ValueError:
        return []


def data_channels(info):
    """Return the indices of the good data channels; reference channels are none."""
    good = [x for x in picked_channels(info, None) if x not in info["bads"]]
    return [info["ch_names"].index(name) for name in good]


def pick_channels(info, picks):
    """Return the indices of the channels to use; bad ones stay out."""
    good, why = [], ""
    try:
        # MNE-Python keeps bad channels that are named one by one.
        good = [name for name in _picked(info, picks)[0] if name not in info["bads"]]
    except (IndexError, TypeError, ValueError) as error:
        why = "" if picks is None else f" MNE-Python says: {error}"
    if not good:
        types = sorted(set(info.get_channel_types()))
        raise ValueError(
            f"No good channels for picks={picks!r}; the channel types are: "
            f"{', '.join(types)}; bad channels: {info['bads']}. Name the channels or "
            f"types to use in picks, e.g. picks={types[0]!r}.{why}"
        )
    return [info["ch_names"].index(name) for name in good]


def channels_left_out(info, picks):
    """Return what a result records of picked channels that are not used, if any."""
    names, references = _picked(info, picks)
    numbers = {"bad": len({*names} & {*info["bads"]}), "reference": len(references)}
    numbers = {reason: n for reason, n in numbers.items() if n}
    return {"channels_left_out": numbers} if numbers else {}


@dataclass(frozen=True)
class Scaling:
    """A linear map that brings channels to one scale, the same for all epochs."""

    #: What channels are divided by, (n_channels,) or (n_freqs, 1, 1, n_channels).
    divisors: np.ndarray | None = None
    whitener: np.ndarray | None = None  #: a matrix (n_channels, n_channels) instead

    def apply(self, data):
        """Return data (..., n_channels) on the common scale; may use up the array."""
        if self.whitener is not None:
            return data @ self.whitener.T
        if self.divisors is not None:
            data /= self.divisors
        return data

    def undo(self, patterns):
        """Return patterns (..., n_channels) in the channels' own units."""
        if self.whitener is not None:
            return patterns @ np.linalg.pinv(self.whitener).T
        return patterns if self.divisors is None else patterns * self.divisors


def samples_first(epochs, picks, name="epochs"):
    """Return picked data, a new array ([n_freqs,] n_times, n_epochs, n_channels).

    Channels are picked by numbers, or of epochs by names.
    """
    own = "data" if name == "epochs" else "data_test"
    # The features of a time point are contiguous then.
    if isinstance(epochs, EpochsTFR):
        data = check_array(_power(epochs, name)[:, picks], f"The data of {name}", 4)
        note_input(own, data)
        return np.array(np.moveaxis(data, (0, 1), (-2, -1)), order="C")
    if epochs.preload:  # nothing is copied, but trials one by one below
        given, names = epochs.get_data(copy=False), epochs.ch_names
        rows = [names.index(x) if isinstance(x, str) else x for x in picks]
    else:
        given, rows = epochs.get_data(picks=picks), slice(None)
    data = np.empty((given.shape[2], len(given), len(picks)), given.dtype)
    for number, trial in enumerate(given):
        data[:, number] = trial[rows].T
    trials = check_array(data.transpose(1, 2, 0), f"The data of {name}", 3)
    note_input(own, trials)
    return trials.transpose(2, 0, 1)


def _power(tfr, name):
    """Return real values, (n_epochs, n_channels, n_freqs, n_times)."""
    if tfr.data.ndim == 5:
        raise ValueError(
            f"{name} has an axis of tapers, shape {tfr.data.shape}. Power is summed "
            "over them: compute it with output='power'."
        )
    if np.iscomplexobj(tfr.data):
        raise ValueError(
            f"The data of {name} holds complex data; real numbers are needed. For "
            "power, compute it with output='power', or pass an EpochsTFRArray of "
            f"np.abs({name}.data) ** 2. For phase take one frequency, z = "
            f"{name}.data[:, :, i] / np.abs({name}.data[:, :, i]), whose cosine and "
            "sine are features side by side: decode_arrays(np.concatenate([z.real, "
            "z.imag], axis=1), y, sfreq=..., tmin=...). Without the division amplitude "
            "and phase are decoded together."
        )
    warn_of_angles(
        tfr.data,
        f"The data of {name}",
        f"of one frequency, z = {name}.data[:, :, i], decode_arrays(np.concatenate(["
        "np.sin(z), np.cos(z)], axis=1), y, sfreq=..., tmin=...)",
    )
    return tfr.data


def sampling_rate(epochs, window, step):
    """Return the samples per second, by the distance of the times if there are two."""
    sfreq = float(epochs.info["sfreq"])
    distances = np.diff(epochs.times)
    if np.allclose(distances, 1 / sfreq, rtol=1e-3, atol=0):
        return sfreq
    # A decomposition made from an array may have other times than its info says.
    if np.allclose(distances, distances.mean(), rtol=1e-3, atol=0):
        return float(1 / distances.mean())
    if window is not None or step is not None:
        raise ValueError(
            f"The times of epochs are not evenly spaced: {distances.min():g} to "
            f"{distances.max():g} s apart. Leave out window and step, which are in "
            "seconds, or resample to even times."
        )
    return sfreq


def fit_scaling(info, data, scale, kernel):
    """Return the `Scaling` of data ([n_freqs,] n_samples, n_epochs, n_channels)."""
    if data.ndim == 4:
        # Power differs by orders of magnitude between frequencies.
        divisors = [fit_scaling(info, power, scale, kernel).divisors for power in data]
        if divisors[0] is None:
            return Scaling()
        return Scaling(np.stack(divisors)[:, None, None])
    if isinstance(scale, mne.Covariance):
        return Scaling(whitener=_whitener(scale, info))
    if scale == "channel":
        return Scaling(_deviation(data, axis=(0, 1)))
    types = np.array(info.get_channel_types())
    if scale == "auto" and (len(set(types)) > 1 or kernel.assumes_unit_scale):
        divisors = np.ones(len(types))
        for kind in set(types):
            divisors[types == kind] = _deviation(data[:, :, types == kind])
        return Scaling(divisors)
    return Scaling()


def check_scale(scale):
    """Refuse unknown scales."""
    if not isinstance(scale, mne.Covariance):
        check_option("scale", scale, _SCALES, also=("a noise covariance",))


def scale_name(scale):
    """Return how a result records the scale."""
    return scale if isinstance(scale, str | None) else "covariance"


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
    data = pick_channels(info, None)
    others = [name for i, name in enumerate(info["ch_names"]) if i not in data]
    if others:
        raise ValueError(
            "A noise covariance in scale whitens data channels only; "
            f"{', '.join(others)} in picks cannot be whitened. Leave them out of picks "
            "or use scale='auto'."
        )
    return mne.cov.compute_whitener(covariance, info, verbose=False)[0]


def progress_wanted(verbose):
    """Return MNE's verbose as yes, no or None."""
    if isinstance(verbose, str):
        check_option("verbose", verbose.upper(), _LEVELS)
        return verbose.upper() in ("DEBUG", "INFO")
    if isinstance(verbose, np.bool_):  # of which both are below any level
        return bool(verbose)
    if verbose is None or isinstance(verbose, bool):
        return verbose
    if not isinstance(verbose, Integral):
        raise TypeError(
            f"Invalid value for 'verbose': {verbose!r}. Allowed: True, False, None, or "
            f"a level of logging, {quoted(_LEVELS)} or its number."
        )
    return verbose <= 20  # the number of the INFO level


def check_map(epochs, sensors, scale):
    """Refuse what cannot be combined in a map of frequencies or of sensors."""
    power, whitened = isinstance(epochs, EpochsTFR), isinstance(scale, mne.Covariance)
    if power and sensors is not None:
        raise ValueError(
            "sensors works on mne.Epochs only; an EpochsTFR object is decoded at each "
            "frequency and time. Leave sensors out, or choose channels with picks."
        )
    if power and whitened:
        raise ValueError(
            "A noise covariance in scale whitens signals, not their power. Use "
            "scale='auto' or 'channel', or whiten the epochs before computing power."
        )
    if sensors is not None and whitened:
        raise ValueError(
            "A noise covariance in scale mixes each sensor with all others, so that "
            "neighbourhoods are no longer local. Use scale='auto' or 'channel'."
        )


def find_neighbours(info, sensors):
    """Return which picked channels are neighbours, each pair once, (2, n_pairs)."""
    names = info["ch_names"]
    if sensors is True or isinstance(sensors, str):
        also = ("an adjacency matrix", "(matrix, ch_names)")
        check_option("sensors", sensors, ("adjacency", True), also)
        sensors = _mne_adjacency(info)
    if isinstance(sensors, tuple) and len(sensors) == 2:
        matrix, known = sensors
        known = [str(name) for name in known]
        matrix = _check_adjacency(matrix, len(known), "channel name")
        missing = [name for name in names if name not in known]
        if missing:
            raise ValueError(
                f"The adjacency in sensors lacks {len(missing)} of the {len(names)} "
                f"picked channels: {quoted(missing[:5])}. It has, for example, "
                f"{quoted(known[:3])}. Rename or pick channels so that they match."
            )
        order = [known.index(name) for name in names]
        matrix = matrix[np.ix_(order, order)]
    else:
        matrix = _check_adjacency(sensors, len(names), "picked channel")
    return np.stack(np.nonzero(np.triu(matrix, k=1)))


def _mne_adjacency(info):
    """Return the adjacency that MNE-Python finds for channels of a single type."""
    types = sorted(set(info.get_channel_types()))
    if len(types) > 1:
        raise ValueError(
            "sensors='adjacency' takes channels of one type; picked are "
            f"{', '.join(types)}. Pick one, e.g. picks={types[0]!r}, or pass your own "
            "matrix as sensors."
        )
    n = len(info["ch_names"])
    if types[0] == "misc" or n < 4:
        raise ValueError(
            "sensors='adjacency' needs four or more channels of a type that has places "
            f"on the head; picked are {n} of type {types[0]}. Pick others, or pass "
            "your own matrix as sensors."
        )
    try:
        with mne.use_log_level("ERROR"):
            return mne.channels.find_ch_adjacency(info, types[0])
    # No positions, positions for another type, or too few channels for triangles.
    except (LookupError, RuntimeError, ValueError) as error:
        raise ValueError(
            f"MNE-Python finds no neighbours of the {n} "
            f"{types[0]} channels: {str(error).splitlines()[0]} Set the positions with "
            "epochs.set_montage, or pass your own matrix as sensors."
        ) from error


def _check_adjacency(matrix, n, what):
    """Return a symmetric array of booleans, (n, n)."""
    matrix = matrix.toarray() if sparse.issparse(matrix) else matrix
    try:
        matrix = np.asarray(matrix, dtype=float)
    except (TypeError, ValueError):
        raise TypeError(
            f"Invalid value for 'sensors': {matrix!r}. Allowed: None, 'adjacency', a "
            "matrix, or the tuple that mne.channels.find_ch_adjacency returns."
        ) from None
    if matrix.shape != (n, n):
        raise ValueError(
            f"The adjacency in sensors must have shape ({n}, {n}), one row per {what}; "
            f"got {matrix.shape}. Pass (matrix, ch_names) to match channels by name."
        )
    if not np.isin(matrix, (0, 1)).all():
        raise ValueError(
            "The adjacency in sensors must hold zeros and ones; got values from "
            f"{matrix.min():g} to {matrix.max():g}. From distances: distances < 0.04."
        )
    if (matrix != matrix.T).any():
        i, j = np.argwhere(matrix != matrix.T)[0]
        raise ValueError(
            "The adjacency in sensors must be symmetric; it differs for the pair "
            f"({i}, {j}). Make it so: (matrix + matrix.T) > 0."
        )
    return matrix > 0
