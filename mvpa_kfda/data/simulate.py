"""Simulated EEG epochs with a known answer, made without any download.

The sensors see dipoles in a spherical head through MNE-Python's forward model. A
few of them answer to the stimulus, some of these by class, and many others are
ongoing activity.
"""

from __future__ import annotations

from typing import Literal

import mne
import numpy as np
from pandas import DataFrame

from ..utils.checks import (
    Seed,
    check_count,
    check_finite,
    check_option,
    check_positive,
    generator,
)
from ..utils.memory import check_memory

#: How often the data are in memory while they are simulated.
_COPIES = 3

CAPS = (16, 32, 64, 128)  # numbers of channels of BioSemi

# Where the answer to a stimulus comes from. Position in millimetres from the centre
# of the head (x to the right, y to the nose, z up) and the component it belongs to.
SITES = (
    ((-14, -62, 5), "early"),
    ((14, -62, 5), "early"),
    ((-48, -42, -12), "middle"),
    ((48, -42, -12), "middle"),
    ((0, -66, 22), "middle"),
    ((-28, -40, 48), "late"),
    ((28, -40, 48), "late"),
    ((-56, 8, -14), "late"),
    ((56, 8, -14), "late"),
    ((0, 34, 52), "late"),
)

# Per component: latency and width of its Gaussian time course (s), size of the
# answer all classes share, and size of what differs between the classes. The early
# one is the same for every class, so nothing can be decoded before the middle one.
COMPONENTS = {
    "early": (0.100, 0.015, 1.0, 0.0),
    "middle": (0.170, 0.025, -1.3, 1.0),
    "late": (0.380, 0.090, 0.8, 0.6),
}

#: Latency, width, shared size and class size of each site; shape (4, n_sites).
_OF_SITES = np.array([COMPONENTS[component] for _, component in SITES]).T

EVOKED_SIZE = 4e-6  # peak of the shared answer over sensors, V (root mean square)
NOISE_SIZE = 9e-6  # ongoing activity and sensor noise in one trial, V
SENSOR_SHARE = 0.25  # part of the noise amplitude that is the sensors' own
N_BACKGROUND = 60  # dipoles with ongoing activity
AMPLITUDE_SPREAD = 0.3  # how much the answer's size varies from trial to trial


def simulate_epochs(
    n_trials: int = 180,
    n_classes: int = 3,
    *,
    snr: float = 0.3,
    n_channels: Literal[16, 32, 64, 128] = 32,
    sfreq: float = 100.0,
    tmin: float = -0.2,
    tmax: float = 0.8,
    n_blocks: int = 6,
    random_state: Seed = 0,
) -> mne.EpochsArray:
    r"""Simulate EEG epochs whose classes differ after the stimulus.

    The signal of trial :math:`i` at the sensors is

    .. math:: x_i(t) = L\, a_i \sum_s \left(b_s + d_{s,k(i)}\right) g_s(t)
              + \sigma\, \epsilon_i(t)

    with the lead field :math:`L` of ten dipoles (spherical head model, EEG), a time
    course :math:`g_s` around 100, 170 or 380 ms, a response :math:`b_s` shared by all
    classes, a component :math:`d_{s,k}` of class :math:`k` that sums to zero over the
    classes, and an amplitude :math:`a_i` that varies across trials. The noise
    :math:`\epsilon` is the field of 60 further dipoles with a 1/f spectrum and a 10 Hz
    peak, plus white noise at the sensors. Classes differ from about 100 ms after the
    stimulus, and never before it.

    Parameters
    ----------
    n_trials : int, default=180
        Total number of trials. Class counts are as equal as possible, within each block
        and overall.
    n_classes : int, default=3
        Number of classes.
    snr : float, default=0.3
        Size of the class differences (root mean square over sensors and classes, at the
        time point of their maximum) relative to the noise of a single trial (root mean
        square over sensors, times and trials). 0: no class differences.
    n_channels : {16, 32, 64, 128}, default=32
        Number of EEG channels (BioSemi caps).
    sfreq : float, default=100.0
        Sampling frequency in Hz.
    tmin : float, default=-0.2
        First time of an epoch in seconds. The stimulus is at 0, and the baseline is
        the time before it.
    tmax : float, default=0.8
        Last time of an epoch in seconds.
    n_blocks : int, default=6
        Number of recording blocks, in the metadata column ``"block"``.
    random_state : int, default=0
        Seed. The same seed gives the same epochs.

    Returns
    -------
    epochs : mne.EpochsArray, shape (n_trials, n_channels, n_times)
        Epochs in volts with average reference. ``event_id`` names the classes
        ``"class_1"``, ``"class_2"``, ... The metadata has the columns
        ``"condition"`` (the class name), ``"block"`` (1, 2, ...) and ``"trial"``.

    Raises
    ------
    ValueError
        If there are fewer trials than classes or blocks, fewer than two classes, a
        negative ``snr``, no cap with this number of channels, or no time points before
        and after the stimulus.

    Examples
    --------
    >>> from mvpa_kfda import simulate_epochs
    >>> epochs = simulate_epochs(60, n_classes=3, n_channels=16, random_state=1)
    >>> epochs.get_data().shape
    (60, 16, 101)
    >>> sorted(epochs.event_id)
    ['class_1', 'class_2', 'class_3']
    """
    n_classes = check_count("n_classes", n_classes, minimum=2)
    n_blocks = check_count("n_blocks", n_blocks, minimum=1)
    n_trials = check_count("n_trials", n_trials, minimum=2)
    if n_trials < max(n_classes, n_blocks):
        raise ValueError(
            f"n_trials={n_trials} is too small for {n_classes} classes in {n_blocks} "
            "blocks. Ask for at least one trial of each class and block."
        )
    check_option("n_channels", n_channels, CAPS)
    check_positive("sfreq", sfreq)
    check_positive("snr", snr, zero=True)
    tmin, tmax = check_finite("tmin", tmin), check_finite("tmax", tmax)
    if not (tmin * sfreq <= -1 and tmax > 0):
        raise ValueError(
            f"Epochs from {tmin} to {tmax} s at sfreq={sfreq} do not hold the stimulus "
            "at 0 s with a sample before it. Choose a lower 'tmin' or a higher 'tmax'."
        )
    rng = generator(random_state)
    montage = mne.channels.make_standard_montage(f"biosemi{n_channels}")
    info = mne.create_info(montage.ch_names, sfreq, "eeg", verbose=False)
    info.set_montage(montage, verbose=False)
    n_times = round(tmax * sfreq) + 1 - round(tmin * sfreq)
    check_memory(
        _COPIES * 8 * n_trials * n_channels * n_times,
        f"To simulate {n_trials:,} trials of {n_times:,} samples",
        "fewer trials, a lower sfreq or shorter epochs",
    )
    times = np.arange(round(tmin * sfreq), round(tmax * sfreq) + 1) / sfreq
    blocks = np.sort(np.arange(n_trials) % n_blocks)
    # Counting on from block to block keeps the totals equal as well.
    codes = np.arange(n_trials) % n_classes
    for block in range(n_blocks):
        codes[blocks == block] = rng.permutation(codes[blocks == block])
    shared, by_class, background = _make_patterns(info, n_classes, snr, rng)
    answers = (shared + by_class) @ _time_courses(times)  # (n_classes, n_channels, .)
    amplitude = 1 + AMPLITUDE_SPREAD * rng.standard_normal((n_trials, 1, 1))
    noise = NOISE_SIZE * _make_noise(background, n_trials, times.size, sfreq, rng)
    data = amplitude * answers[codes] + noise  # (n_trials, n_channels, n_times)

    names = [f"class_{k + 1}" for k in range(n_classes)]
    trials = np.arange(1, n_trials + 1)
    events = np.column_stack([n_times * trials, 0 * trials, codes + 1])
    event_id = {name: k + 1 for k, name in enumerate(names)}
    metadata = DataFrame({"condition": [names[code] for code in codes]})
    metadata = metadata.assign(block=blocks + 1, trial=trials)
    asked = {"tmin": times[0], "event_id": event_id, "metadata": metadata}
    with mne.use_log_level("WARNING"):
        epochs = mne.EpochsArray(data, info, events, **asked)
        epochs.set_eeg_reference("average", projection=False)
        return epochs.apply_baseline((None, 0))


def _make_patterns(info, n_classes, snr, rng):
    """Patterns of shared answers, of answers by class, and of ongoing activity."""
    sites = np.array([site for site, _ in SITES], dtype=float) / 1000
    _, _, common, differing = _OF_SITES
    outward = sites / np.linalg.norm(sites, axis=1, keepdims=True)
    depth = 0.07 * rng.uniform(0.4, 1.0, (N_BACKGROUND, 1))
    gain = _lead_field(
        info,
        np.vstack([sites, depth * _random_directions(N_BACKGROUND, rng)]),
        np.vstack([outward, _random_directions(N_BACKGROUND, rng)]),
    )
    gain -= gain.mean(axis=0)  # average reference
    gain, background = np.split(gain, [len(SITES)], axis=1)

    weights = differing * rng.standard_normal((n_classes, len(SITES)))
    weights -= weights.mean(axis=0)
    shared = gain * common
    by_class = gain * weights[:, None, :]
    # Whatever the cap and the seed: the differences have the asked size. The epochs'
    # own times do not enter, so a shorter epoch is a piece of the longer one's signal.
    courses = _time_courses(np.arange(1, 1001) / 1000)
    for patterns, size in ((shared, EVOKED_SIZE), (by_class, snr * NOISE_SIZE)):
        fields = patterns @ courses  # (..., n_channels, n_times)
        mean_squares = np.mean(fields**2, axis=tuple(range(fields.ndim - 1)))
        patterns *= size / np.sqrt(mean_squares.max())
    return shared, by_class, background


def _time_courses(times):
    """Time course of each site; shape (n_sites, n_times)."""
    latency, width, _, _ = _OF_SITES
    courses = np.exp(-0.5 * ((times - latency[:, None]) / width[:, None]) ** 2)
    courses[:, times <= 0] = 0  # nothing answers before the stimulus
    return courses


def _random_directions(n, rng):
    """Draw ``n`` unit vectors, uniform over the sphere; shape (n, 3)."""
    vectors = rng.standard_normal((n, 3))
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def _lead_field(info, positions, orientations):
    """Potentials (n_channels, n_dipoles) of unit dipoles at places in metres."""
    with mne.use_log_level("WARNING"):
        sphere = mne.make_sphere_model("auto", "auto", info)
        pos = {"rr": positions + sphere["r0"], "nn": orientations}
        src = mne.setup_volume_source_space(pos=pos, sphere=sphere, sphere_units="m")
        forward = mne.make_forward_solution(info, None, src, sphere, meg=False)
    # The columns of each dipole are its moments along x, y and z.
    gain = forward["sol"]["data"].reshape(len(info["ch_names"]), len(positions), 3)
    return np.einsum("edx,dx->ed", gain, orientations)


def _make_noise(background, n_trials, n_times, sfreq, rng):
    """Noise of unit size, correlated, (n_trials, n_channels, n_times)."""
    # Draw twice the length and keep one half, so that the two ends of an epoch are
    # not neighbors (the spectrum belongs to a periodic signal).
    spectrum = np.fft.rfft(rng.standard_normal((n_trials, N_BACKGROUND, 2 * n_times)))
    frequencies = np.fft.rfftfreq(2 * n_times, 1 / sfreq)
    power = 1 / np.maximum(frequencies, 1.0)
    power += 0.5 * np.exp(-0.5 * ((frequencies - 10) / 1.0) ** 2)
    activity = np.fft.irfft(spectrum * np.sqrt(power))[..., :n_times]
    field = background @ activity  # (n_trials, n_channels, n_times)
    field /= np.sqrt(np.mean(field**2))
    sensors = rng.standard_normal(field.shape)
    return np.sqrt(1 - SENSOR_SHARE**2) * field + SENSOR_SHARE * sensors
