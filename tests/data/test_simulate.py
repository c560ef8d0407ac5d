"""Simulated epochs: the known answer is where it should be, and nowhere else."""

import mne
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from mvpa_kfda import simulate_epochs
from mvpa_kfda.data.simulate import NOISE_SIZE

TIMES = {"tmin": -0.1, "tmax": 0.4}


def test_epochs_hold_what_was_asked_for():
    epochs = simulate_epochs(
        50, 4, n_channels=64, sfreq=200.0, n_blocks=5, random_state=3, **TIMES
    )
    assert isinstance(epochs, mne.BaseEpochs)
    assert epochs.get_data().shape == (50, 64, 101)
    assert epochs.info["sfreq"] == 200.0
    assert_allclose(epochs.times[[0, 20, -1]], [-0.1, 0.0, 0.4], rtol=0, atol=1e-12)
    assert epochs.event_id == {f"class_{k}": k for k in (1, 2, 3, 4)}
    assert set(epochs.get_channel_types()) == {"eeg"}
    assert epochs.get_montage() is not None
    names = {code: name for name, code in epochs.event_id.items()}
    from_events = [names[code] for code in epochs.events[:, 2]]
    assert list(epochs.metadata["condition"]) == from_events
    assert list(epochs.metadata["trial"]) == list(range(1, 51))
    assert np.all(np.diff(epochs.metadata["block"]) >= 0)
    first, again, other = (
        simulate_epochs(12, n_channels=16, random_state=seed, **TIMES)
        for seed in (5, 5, 6)
    )
    assert_array_equal(first.get_data(), again.get_data())
    assert_array_equal(first.events, again.events)
    assert not np.allclose(first.get_data(), other.get_data(), rtol=1e-3, atol=0)


def signal_of(tmax=0.8):
    """Return the signal of 30 epochs, data and the epochs.

    The noise of equal seeds is equal, so the difference of two data sets is signal.
    """
    quiet, loud = (
        simulate_epochs(30, snr=snr, tmax=tmax, random_state=2) for snr in (0.0, 0.5)
    )
    return loud.get_data() - quiet.get_data(), loud


@pytest.mark.parametrize(
    ("n_trials", "n_classes", "n_blocks"), [(60, 3, 4), (65, 3, 4), (12, 4, 2)]
)
def test_classes_are_balanced_in_every_block_and_overall(n_trials, n_classes, n_blocks):
    epochs = simulate_epochs(
        n_trials, n_classes, n_channels=16, n_blocks=n_blocks, **TIMES
    )
    metadata = epochs.metadata
    per_block = metadata.groupby(["block", "condition"]).size().unstack()
    assert np.ptp(per_block.to_numpy(), axis=1).max() <= 1
    assert np.ptp(metadata["condition"].value_counts()) <= 1
    assert np.ptp(metadata["block"].value_counts()) <= 1


def test_size_reference_and_baseline_are_those_of_eeg():
    epochs = simulate_epochs(60, random_state=1)
    data = epochs.get_data()
    assert 5e-6 < data.std() < 20e-6
    assert 20e-6 < np.abs(data).max() < 200e-6
    assert_allclose(data.mean(axis=1), 0, rtol=0, atol=1e-18)
    assert_allclose(data[..., epochs.times <= 0].mean(axis=-1), 0, rtol=0, atol=1e-18)
    assert epochs.info["custom_ref_applied"]


def test_classes_differ_after_the_stimulus_by_the_asked_amount():
    signal, loud = signal_of()
    before = loud.times <= 0.05
    assert np.abs(signal[..., before]).max() < 1e-2 * np.abs(signal).max()
    # Amplitudes vary around one from trial to trial: the mean leaves about one.
    codes = loud.events[:, 2]
    means = np.array([signal[codes == k].mean(axis=0) for k in np.unique(codes)])
    peak = np.sqrt(np.mean(means**2, axis=(0, 1))).max()
    assert_allclose(peak, 0.5 * NOISE_SIZE, rtol=0.15, atol=0)
    # The classes differ around the answer they share: they have no common part.
    assert np.abs(means.mean(axis=0)).max() < 0.2 * np.abs(means).max()
    # Shorter epochs have the same patterns.
    shorter, epochs = signal_of(0.3)
    sizes = [
        np.std(data[..., each.time_as_index(0.17)])
        for data, each in ((signal, loud), (shorter, epochs))
    ]
    assert_allclose(*sizes, rtol=1e-9, atol=0)


def test_without_signal_the_classes_share_their_means():
    epochs = simulate_epochs(300, snr=0.0, n_channels=16, random_state=4)
    data, codes = epochs.get_data(), epochs.events[:, 2]
    means = np.array([data[codes == k].mean(axis=0) for k in np.unique(codes)])
    spread = np.sqrt(np.mean((means - means.mean(axis=0)) ** 2))
    assert spread < 1.3 * data.std() * np.sqrt(2 / 300)


def test_noise_is_correlated_over_sensors_and_time():
    data = simulate_epochs(80, snr=0.0, random_state=7).get_data()
    data = data - data.mean(axis=0)
    between = np.corrcoef(data[:, :, -1].T)  # (n_channels, n_channels)
    assert np.abs(between[np.triu_indices(32, k=1)]).mean() > 0.2
    flat = data[:, 0, 40:] - data[:, 0, 40:].mean(axis=1, keepdims=True)
    assert np.mean(flat[:, 1:] * flat[:, :-1]) > 0.3 * np.mean(flat**2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_classes": 1}, "Invalid value for 'n_classes': 1"),
        ({"n_trials": 2}, "n_trials=2 is too small for 3 classes in 6 blocks"),
        ({"n_trials": 20.5}, "Invalid value for 'n_trials': 20.5"),
        ({"n_blocks": 0}, "Invalid value for 'n_blocks': 0"),
        ({"snr": -1.0}, "Invalid value for 'snr': -1.0.*Zero is allowed too"),
        ({"snr": float("nan")}, "Invalid value for 'snr': nan"),
        ({"n_channels": 30}, "Invalid value for 'n_channels': 30. Allowed: 16, 32"),
        ({"sfreq": 0}, "Invalid value for 'sfreq': 0"),
        ({"tmin": 0.1}, "do not hold the stimulus at 0 s"),
        ({"tmax": 0.0}, "do not hold the stimulus at 0 s"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        simulate_epochs(**arguments)


def test_simulation_is_quiet(capfd):
    with mne.use_log_level("INFO"):
        simulate_epochs(12, n_channels=16)
    assert capfd.readouterr() == ("", "")
