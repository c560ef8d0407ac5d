"""Epochs, of recordings or of others: as by hand; runs that differ are made alike."""

import mne
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from mvpa_kfda import decode_epochs
from mvpa_kfda.bids.analyses import read_trials
from mvpa_kfda.bids.epochs import join_epochs
from mvpa_kfda.bids.find import find_inputs, find_units
from mvpa_kfda.cli.bids import participant_options
from tests import bids_data, build
from tests.bids_data import Study

FILES = ["sub-01_run-1_epo.fif", "sub-01_run-2_epo.fif", "sub-01_run-3_epo.fif"]
ONE = "--participant-label 01"


# -------------------------------------------------------------------------- as by hand


def epochs_by_hand(root, subject, high_pass=None):
    """Return epochs of raw BIDS data and the run of each, as a user would make them."""
    from mne_bids import BIDSPath, read_raw_bids

    parts, runs = [], []
    for number in (1, 2):
        path = BIDSPath(subject, task="faces", run=number, datatype="eeg", root=root)
        raw = read_raw_bids(path, verbose="error").load_data(verbose="error")
        if high_pass is not None:
            raw.filter(high_pass, None, verbose="error")
        wanted = {"face/left": 1, "house/left": 2}
        events, _ = mne.events_from_annotations(raw, wanted, verbose="error")
        parts.append(
            mne.Epochs(raw, events, wanted, -0.1, 0.3, preload=True, verbose="error")
        )
        runs += [number] * len(parts[-1])
    return mne.concatenate_epochs(parts, verbose="error"), runs


def test_raw_eeg_is_decoded_as_by_hand(raw_eeg, tmp_path):
    study = raw_eeg.elsewhere(tmp_path)
    words = "--tmin -0.1 --tmax 0.3 --high-pass 0.5 --picks Cz,Pz"
    assert study.run(words) == 0
    for subject in ("01", "02"):
        epochs, runs = epochs_by_hand(study.root, subject, 0.5)
        options = {"picks": ["Cz", "Pz"], "n_permutations": 5, "random_state": 0}
        expected = decode_epochs(epochs, groups=runs, **options)
        result = study.result(f"sub-{subject}")
        assert_allclose(result.times, expected.times, rtol=0, atol=1e-12)
        assert_array_equal(result.scores, expected.scores)
        assert_array_equal(result.null, expected.null)
        assert result.scores.max() > 0.8
        recordings = result.parameters["recordings"]
        found = {name: recordings[name] for name in ("kind", "n_runs", "high_pass")}
        assert found == {"kind": "raw", "n_runs": 2, "high_pass": 0.5}
        assert (recordings["tmin"], recordings["tmax"]) == (-0.1, 0.3)
        assert recordings["baseline"] == ["none", "0"]
    # Without --where the button is a class, too.
    every = Study(study.root, tmp_path / "every", ("--n-permutations", "0"))
    assert every.run(f"{ONE} --tmax 0.1") == 0
    assert len(every.result().classes) == 3


def test_epochs_of_the_pipeline_are_decoded_as_by_hand(epochs_of_two, tmp_path):
    plain, study = (epochs_of_two.elsewhere(tmp_path, name) for name in ("a", "b"))
    assert plain.run() == 0
    words = "--by 'rt > 0.5' --train-on \"trial_type == 'face'\" --tmin 0.1"
    assert study.run(words) == 0
    path = study.root / "sub-02" / "eeg" / "sub-02_task-faces_proc-clean_epo.fif"
    epochs = mne.read_epochs(path, verbose="error")
    options = {"groups": "run", "n_permutations": 5, "random_state": 0}
    expected = decode_epochs(epochs, **options)
    assert_array_equal(plain.result("sub-02").scores, expected.scores)
    epochs.crop(0.1, None)
    mask, rt = epochs.events[:, 2] == 1, epochs.metadata["rt"]
    expected = decode_epochs(epochs, rt > 0.5, train_on=mask, **options)
    result = study.result("sub-02")
    assert_array_equal(result.scores, expected.scores)
    assert result.parameters["train_on"] == "trial_type == 'face'"


def trials_of(study, **given):
    """Return the trials of the first subject, of which nothing is decoded."""
    options = {name: each.default for name, each in participant_options().items()}
    options |= {"bids_dir": study.root, "output_dir": study.out, "analysis": "time"}
    options |= {"where": bids_data.STIMULI} | given
    (unit, *_), _ = find_units(options)
    return read_trials(find_inputs(unit, options), options)


def test_raw_recordings_are_resampled_as_epochs(raw_eeg):
    options = {"baseline": ["none"], "tmin": 0.0, "tmax": 0.3}
    every = trials_of(raw_eeg, **options).data
    fewer = trials_of(raw_eeg, **options, resample=25.0).data
    parts = [every[np.arange(i, i + 16)].copy() for i in (0, 16)]  # the runs
    expected = [part.resample(25.0, verbose="error").get_data() for part in parts]
    assert fewer.info["sfreq"] == 25.0
    assert_array_equal(fewer.get_data(), np.concatenate(expected))


def test_epochs_of_zeros_are_no_trials(epochs, capsys):
    path = epochs.find("*sub-01*proc-clean_epo.fif")
    changed = mne.read_epochs(path, verbose="error").load_data()
    changed._data[7] = 1e-6
    changed.save(path, overwrite=True, verbose="error")
    assert epochs.run(ONE) == 0
    counts = epochs.record()["Trials"]["Events"]
    assert sum(own.get("without any signal", 0) for own in counts.values()) == 1
    assert "23 of 24 events decoded: 1 without any signal" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--tmin 10", "proc-clean_epo.fif: tmin (10.0) must be less"),
        ("--resample 99", "clean_epo.fif: --resample 99 is above the 50 Hz"),
        ("--resample 0", "clean_epo.fif: Invalid value for 'resample': 0.0"),
        ("--confounds iq", "confounds='iq' is not a metadata column"),
        ("--baseline none", "--baseline is for raw recordings"),
    ],
)
def test_mistakes_with_epochs_name_the_file(
    epochs_of_two, tmp_path, capsys, words, message
):
    assert epochs_of_two.elsewhere(tmp_path).run(words) == 2
    first, _ = capsys.readouterr().err.splitlines()
    assert first.startswith("mvpa-kfda: error: sub-01 task-faces: ")
    assert message in first


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("run-2_eeg.eeg", b"", "run-2_eeg.vhdr: "),
        ("run-1_eeg.eeg", None, "there is no sub-01_task-faces_run-1_eeg.eeg, which"),
        ("run-1_eeg.json", b"[1,", "run-1_eeg.vhdr: Expecting value"),
        ("run-1_events.tsv", b"onset\tduration\nsoon\t1\n", "'soon' in line 2"),
        ("run-1_events.tsv", b"onset\tduration\n1\tlong\n", "'long' in line 2"),
    ],
)
def test_errors_of_recordings_name_the_file(eeg, capsys, name, content, message):
    path = eeg.find(f"sub-01_task-faces_{name}")
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    assert eeg.run(ONE) == 2
    said = capsys.readouterr().err
    assert f"sub-01_task-faces_{name.partition('_')[0]}" in said
    assert message in said
    assert "Errno" not in said


# --------------------------------------------------------------------- runs that differ


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


def test_channels_and_events_of_other_order_and_numbers_are_made_alike():
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
    # A number that means another event is replaced.
    second.event_id = {"bee": 1, "new": 2}
    joined, _ = join(first, second)
    assert names(joined) == names(first) + names(second)
    assert set(joined.event_id) == {"ant", "bee", "new"}
    # Baselines may be rounded to other samples.
    first, second = (
        part(seed).apply_baseline((None, 0), verbose=False) for seed in (0, 1)
    )
    second.baseline = (-0.0195, 0.0)
    assert join(first, second)[0].baseline == first.baseline


def test_channels_that_only_some_runs_have_are_left_out_unless_picked():
    first, second = part(0, types=["eeg", "eeg", "eog", "eeg"]), part(1)
    second.drop_channels("EEG2")
    second.info["bads"] = ["EEG1"]
    assert join(first, second)[0].ch_names == ["EEG0", "EEG1", "EEG3"]
    first.drop_channels("EEG1")  # bad in the other run anyhow
    assert join(first, second)[0].ch_names == ["EEG0", "EEG3"]
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


def test_runs_of_other_rates_are_decoded_with_resample(tmp_path):
    rng, study = np.random.default_rng(0), Study(tmp_path / "data", tmp_path / "out")
    bids_data.describe(study.root, "mne-bids-pipeline")
    folder = study.root / "sub-01" / "eeg"
    folder.mkdir(parents=True)
    for run, sfreq in enumerate((100.0, 125.0), 1):
        n = round(0.4 * sfreq) + 1
        codes = rng.permutation(np.arange(20) % 2)
        epochs = build.epochs(rng.normal(size=(20, 4, n)), codes, sfreq=sfreq)
        epochs.shift_time(round(-0.1 * sfreq) / sfreq, relative=False)
        epochs.metadata = None
        epochs.save(folder / f"sub-01_task-x_run-{run}_epo.fif", verbose="error")
    assert study.run("--resample 50 --n-permutations 0") == 0
    result = study.result()
    assert_allclose(result.times, -0.1 + np.arange(20) / 50, rtol=0, atol=1e-9)
    assert len(result.y) == 40
