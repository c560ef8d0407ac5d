"""What is done with a subject: the options of the functions, and what is recorded."""

import mne
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from mvpa_kfda import decode_epochs, generalize_epochs
from mvpa_kfda.bids.analyses import ANALYSES, unused_options
from tests import bids_data
from tests.bids_data import Study


def made_by_hand(study, function=decode_epochs, sfreq=None, **options):
    """Return the result of a function for the epochs of the first subject."""
    epochs = mne.read_epochs(study.find("*proc-clean_epo.fif"), verbose="error")
    if sfreq is not None:
        epochs = epochs.load_data().resample(sfreq, verbose="error")
    given = {"groups": "run", "n_permutations": 5, "random_state": 0} | options
    return function(epochs, **given)


@pytest.mark.parametrize(
    ("words", "function", "options"),
    [
        ("--scale channel", decode_epochs, {"scale": "channel"}),
        (
            "--window 0.1 --window-mode concatenate --step 0.1",
            decode_epochs,
            {"window": 0.1, "window_mode": "concatenate", "step": 0.1},
        ),
        (
            "--analysis generalization --confounds rt --resample 10",
            generalize_epochs,
            {"confounds": ["rt"], "sfreq": 10.0},
        ),
        (
            "--by rt --regression --circular --period 2 --reg 0.1 --resample 10 "
            "--analysis generalization",
            generalize_epochs,
            {"y": "rt", "task": "regression", "circular": True, "period": 2}
            | {"reg": 0.1, "sfreq": 10.0},
        ),
    ],
)
def test_options_of_epochs_are_those_of_the_function(
    epochs_of_two, tmp_path, words, function, options
):
    study = epochs_of_two.elsewhere(tmp_path)
    assert study.run(f"{words} --participant-label 01") == 0
    expected, result = made_by_hand(study, function, **options), study.result()
    assert_array_equal(result.scores, expected.scores)
    assert_array_equal(result.null, expected.null)
    plain = made_by_hand(study, n_permutations=0)
    same = result.scores.shape == plain.scores.shape
    assert not (same and np.array_equal(result.scores, plain.scores))
    if function is generalize_epochs:
        table = pd.read_csv(next(study.out.rglob("*decoding.tsv")), sep="\t")
        np.testing.assert_allclose(
            table[result.scoring[0]], result.scores.ravel(), rtol=1e-12, atol=0
        )


def test_values_are_numbers_and_have_no_classes(tmp_path, epochs_of_two, capsys):
    study = epochs_of_two.elsewhere(tmp_path)
    assert study.run("--by trial_type --regression --participant-label 01") == 2
    assert "--by 'trial_type' gives" in capsys.readouterr().err
    words = "--by rt --regression --resample 10 --participant-label 01"
    assert study.run(words, "--dry-run") == 0
    assert study.run(words) == 0
    about, y = study.record()["Trials"], study.result().y
    assert about["ValuesFromTo"] == [y.min(), y.max()]
    assert "TrialsPerClass" not in about
    said = capsys.readouterr().out
    assert f"(values from {y.min():g} to {y.max():g})" in said


def test_sensors_are_an_analysis_of_their_own(tmp_path, epochs_of_two, capsys):
    root = bids_data.write_epochs(tmp_path / "data", places=bids_data.PLANE)
    study = Study(root, tmp_path / "out")
    assert study.run("--resample 10") == 0
    assert study.run("--resample 10 --sensors") == 0
    expected = made_by_hand(study, sfreq=10.0, sensors="adjacency")
    result = study.result("sub-01_task-faces_desc-sensors")
    assert result.scores.shape == (5, 3)
    assert_array_equal(result.scores, expected.scores)
    assert study.result("sub-01_task-faces_desc-time").scores.shape == (3,)
    table = pd.read_csv(next(study.out.rglob("*02*desc-sensors*.tsv")), sep="\t")
    assert list(table["sensor"].unique()) == list(bids_data.PLANE)
    assert study.run("--method t --desc sensors", level="group") == 0
    capsys.readouterr()
    assert epochs_of_two.elsewhere(tmp_path, "o2").run("--sensors") == 2
    assert "Set the positions" in capsys.readouterr().err


def test_options_that_an_analysis_has_no_use_for_are_known():
    assert {"radius", "labels_img", "estimate"} <= ANALYSES["time"].unused()
    assert {"tmin", "sensors", "reject"} <= ANALYSES["searchlight"].unused()
    assert "window" in ANALYSES["searchlight"].unused()
    assert not {"cv", "kernel", "n_permutations"} & ANALYSES["regions"].unused()
    lss = unused_options({"analysis": "searchlight", "estimate": "lss"})
    assert {"delay", "block_gap", "tmin"} <= lss
    blocks = unused_options({"analysis": "searchlight", "estimate": "blocks"})
    assert "delay" not in blocks
    assert unused_options({}) == set()


@pytest.mark.parametrize(
    ("kind", "words", "message"),
    [
        ("eeg", "--analysis regions", "not for eeg data. For these take time or gen"),
        ("eeg", "--radius 3", "--radius is not for --analysis time of eeg data"),
        ("eeg", "--correction cluster-depth --sensors", "is for time courses, which"),
        ("fmri", "--analysis time", "not for func data. For these take searchlight or"),
        ("fmri", "--tmin 0", "--tmin is not for --analysis searchlight of func data"),
    ],
)
def test_analyses_refuse_what_is_for_others(
    raw_eeg, fmri_of_two, tmp_path, capsys, kind, words, message
):
    study = {"eeg": raw_eeg, "fmri": fmri_of_two}[kind]
    given = tuple(
        x for x in study.given if x not in ("--tmin", "--tmax", "-0.05", "0.2")
    )
    given = study.given if "--analysis time" not in words else given
    study = Study(study.root, tmp_path / "out", given)
    assert study.run(words) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
    assert not study.out.exists()
