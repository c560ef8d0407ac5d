"""Runs of a subject that differ: made alike where that is harmless, named elsewhere."""

import mne
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from mvpa_kfda import load_result
from mvpa_kfda.bids.epochs import join_epochs
from mvpa_kfda.cli import main
from tests import bids_data, build

FILES = ["sub-01_run-1_epo.fif", "sub-01_run-2_epo.fif", "sub-01_run-3_epo.fif"]


def part(seed=0, n=12, **more):
    """Return the epochs of a run, of four channels and five times."""
    rng = np.random.default_rng(seed)
    codes = rng.permutation(np.arange(n) % 2)
    return build.epochs(rng.normal(size=(n, 4, 5)), codes, tmin=-0.02, **more)


def join(*parts, **options):
    """Return the runs as one, and the notes."""
    return join_epochs([each.copy() for each in parts], FILES[: len(parts)], **options)


def names(epochs):
    """Return the name of the event of each epoch."""
    called = {code: name for name, code in epochs.event_id.items()}
    return [called[code] for code in epochs.events[:, 2]]


def test_runs_in_order_are_joined_as_by_mne():
    runs = [part(0), part(1), part(2)]
    runs[1].info["bads"] = ["EEG2"]
    joined, notes = join(*runs)
    for each in runs:
        each.info["bads"] = ["EEG2"]
    expected = mne.concatenate_epochs(runs, verbose=False)
    assert notes == ()
    assert_array_equal(joined.get_data(), expected.get_data())
    assert_array_equal(joined.events, expected.events)
    assert (joined.ch_names, joined.info["bads"]) == (expected.ch_names, ["EEG2"])
    assert_array_equal(joined.times, expected.times)


def test_channels_of_other_order_and_events_with_other_numbers_are_made_alike():
    first, second = part(0), part(1)
    other = second.copy().reorder_channels(["EEG3", "EEG1", "EEG0", "EEG2"])
    other.events[:, 2] = 3 - other.events[:, 2]
    other.event_id = {name: 3 - code for name, code in other.event_id.items()}
    joined, notes = join(first, other)
    expected, _ = join(first, second)
    assert notes == ()
    assert joined.ch_names == first.ch_names
    assert_array_equal(joined.get_data(), expected.get_data())
    assert names(joined) == names(first) + names(second)


def test_a_number_that_means_another_event_is_replaced():
    first, second = part(0), part(1)
    second.event_id = {"bee": 1, "new": 2}
    joined, _ = join(first, second)
    assert names(joined) == names(first) + names(second)
    assert set(joined.event_id) == {"ant", "bee", "new"}


def test_other_channels_that_only_some_runs_have_are_left_out():
    first, second = part(0, types=["eeg", "eeg", "eog", "eeg"]), part(1)
    second.drop_channels("EEG2")
    second.info["bads"] = ["EEG1"]
    assert join(first, second)[0].ch_names == ["EEG0", "EEG1", "EEG3"]
    first.drop_channels("EEG1")  # bad in the other run anyhow
    assert join(first, second)[0].ch_names == ["EEG0", "EEG3"]


def test_picks_choose_channels_that_all_runs_have():
    first, second = part(0), part(1).drop_channels("EEG2")
    joined, _ = join(first, second, picks=["EEG3", "EEG0"])
    assert {"EEG0", "EEG3"} <= {*joined.ch_names}
    with pytest.raises(ValueError, match=r"run-2_epo.fif lacks 'EEG2' \(1 in all\)"):
        join(first, second, picks=["EEG2", "EEG0"])


def with_reference(epochs):
    return epochs.set_eeg_reference("average", projection=True, verbose=False)


def with_projector(epochs, value):
    """Return epochs with a projector that was computed from them."""
    data = np.full((1, 4), float(value))
    content = {"data": data, "col_names": epochs.ch_names, "row_names": None}
    content |= {"nrow": 1, "ncol": 4}
    projector = mne.Projection(data=content, desc="PCA-v1", active=False, kind=1)
    return epochs.add_proj(projector, verbose=False)


OF_TWO = {
    "channels": (
        part(1).drop_channels(["EEG1", "EEG3"]),
        r"The 3 runs differ in the channels to decode, of which all have 2 of 4: "
        r"sub-01_run-2_epo.fif lacks 'EEG1', 'EEG3' \(2 in all\)\. .* --picks, or .* "
        "--run",
    ),
    "types": (
        part(1).set_channel_types({"EEG1": "eog"}, verbose=False),
        r"run-2_epo.fif has as another type 'EEG1'",
    ),
    "rates": (
        part(1, sfreq=125.0),
        r"sampling rates: 100 Hz in 2 runs \(sub-01_run-1_epo.fif and sub-01_run-3_epo."
        r"fif\); 125 Hz in 1 run \(sub-01_run-2_epo.fif\)\. Use --resample 100 to",
    ),
    "start": (
        part(1).crop(tmin=0.0),
        r"times: -0.02 to 0.02 s in 2 runs .* Use --tmin 0 --tmax 0.02 to crop",
    ),
    "end": (part(1).crop(tmax=0.01), r"Use --tmin -0.02 --tmax 0.01 to crop all runs"),
    "baseline": (
        part(1).apply_baseline((None, 0), verbose=False),
        r"baselines: none in 2 runs .* -0.02 to 0 s in 1 run .* Prepare all runs",
    ),
    "reference": (
        with_reference(part(1)),
        r"projectors: none in 2 runs .*; 'Average EEG reference' in 1 run",
    ),
}


@pytest.mark.parametrize("case", OF_TWO)
def test_a_run_that_differs_is_named_with_the_option_that_mends_it(case):
    other, match = OF_TWO[case]
    with pytest.raises(ValueError, match=match):
        join(part(0), other, part(2))


def test_projectors_of_one_name_may_have_other_values():
    runs = [with_projector(part(seed), seed + 1) for seed in (0, 1)]
    with pytest.raises(ValueError, match=r"'PCA-v1' \(values \w+\) in 1 run .*; 'PCA"):
        join(*runs)


def test_baselines_that_were_rounded_to_other_samples_are_the_same():
    first, second = (
        part(seed).apply_baseline((None, 0), verbose=False) for seed in (0, 1)
    )
    second.baseline = (-0.0195, 0.0)
    assert join(first, second)[0].baseline == first.baseline


def test_runs_of_other_rates_are_decoded_with_resample(tmp_path):
    rng, root = np.random.default_rng(0), tmp_path / "data"
    bids_data.describe(root, "mne-bids-pipeline")
    folder = root / "sub-01" / "eeg"
    folder.mkdir(parents=True)
    for run, sfreq in enumerate((100.0, 125.0), 1):
        n = round(0.4 * sfreq) + 1
        codes = rng.permutation(np.arange(20) % 2)
        epochs = build.epochs(rng.normal(size=(20, 4, n)), codes, sfreq=sfreq)
        epochs.shift_time(round(-0.1 * sfreq) / sfreq, relative=False)
        epochs.metadata = None
        name = f"sub-01_task-x_run-{run}_epo.fif"
        epochs.save(folder / name, verbose="error")
    given = ["bids", str(root), str(tmp_path / "out"), "participant"]
    few = ["--n-permutations", "0", "--resample", "50", "--correction", "none"]
    assert main([*given, *few]) == 0
    (path,) = (tmp_path / "out").rglob("*_decoding.h5")
    result = load_result(path)
    assert_allclose(result.times, -0.1 + np.arange(20) / 50, rtol=0, atol=1e-9)
    assert len(result.y) == 40
