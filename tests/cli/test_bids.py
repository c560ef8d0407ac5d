"""The command ``mvpa-kfda bids``: its options, exit status, and warnings said once."""

import re
import sys
from pathlib import Path

import pytest

from mvpa_kfda.bids import app
from mvpa_kfda.bids.app import Step
from mvpa_kfda.cli.bids import LEVELS, keys_of
from mvpa_kfda.cli.bids import _word_warnings as word_warnings
from tests import bids_data
from tests.bids_data import Study


@pytest.fixture
def study(tmp_path):
    """Return a dataset of epochs of which nothing is decoded."""
    return Study(bids_data.write_epochs(tmp_path / "data"), tmp_path / "out")


def test_every_option_is_in_the_page_about_it():
    page = Path(__file__).parents[2] / "doc" / "bids.rst"
    text = re.sub(r"(?s)\$ docker run .*?\$ head", "", page.read_text())  # fMRIPrep's
    named = set(re.findall(r"--[a-z][a-z-]+", text))
    flags = {f"--{key}" for name in LEVELS for key in keys_of(name)}
    assert flags | {"--config"} <= named
    of_verify = {"--bids-dir", "--lut", "--record"}
    assert named <= flags | {"--config", "--help"} | of_verify


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--method t", "--method does not apply to the level participant"),
        ("--correction cluster-fdr", "is for the level group"),
        ("--reg Tunned(3)", "Did you mean Tuned?"),
        ("--analysis region", "Did you mean regions?"),
        ("--tsk faces", "Did you mean --task?"),
        ("--mask-img no.nii", "no such file: no.nii"),
        ("--config no.toml", "--config no.toml: the file cannot be read"),
    ],
)
def test_mistakes_are_said_before_anything_is_done(study, capsys, words, message):
    assert study.run(words) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
    assert not study.out.exists()


def test_raw_data_without_mne_bids_name_what_to_install(tmp_path, capsys, monkeypatch):
    root = bids_data.write_eeg(tmp_path / "data", ("01",), n_runs=1)
    monkeypatch.setitem(sys.modules, "mne_bids", None)
    assert Study(root, tmp_path / "out").run() == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert 'pip install "mvpa-kfda[bids]"' in line
    assert not (tmp_path / "out").exists()


def steps(*warnings):
    """Return the outcomes of some subjects with one warning each, or none."""
    return [
        Step(f"sub-{i} task-x", "done", "", (text,) if text else (), str(i))
        for i, text in enumerate(warnings, start=1)
    ]


@pytest.mark.parametrize(
    ("outcomes", "lines"),
    [
        (steps(*["Labels are odd."] * 3), ["3 of 3 subjects: Labels are odd."]),
        (steps("Odd.", None, "Odd."), ["2 of 3 subjects: Odd."]),
        (steps(None, "Odd."), ["sub-2 task-x: Odd."]),
        (
            steps("There are 3 of 24.", "There are 5 of 24.", None),
            ["2 of 3 subjects: There are 3 of 24. (The numbers are those of sub-1"],
        ),
        (steps("No 3.", "None at all."), ["sub-1 task-x: No 3.", "sub-2 task-x: None"]),
        ([Step("group", "done", "", ("Few.",))] * 2, ["group: Few."]),
    ],
    ids=["all", "some", "one", "other numbers", "other words", "group"],
)
def test_warnings_that_subjects_share_are_said_once(outcomes, lines):
    found = list(word_warnings(outcomes))
    assert len(found) == len(lines)
    for text, start in zip(found, lines, strict=True):
        assert text.startswith(start)


def test_a_stopped_run_says_what_it_warned_of(study, monkeypatch, capsys):
    def stopped(*_):
        yield from steps("Odd.", "Odd.")
        raise KeyboardInterrupt

    monkeypatch.setattr(app, "participants", stopped)
    assert study.run() == 130
    assert "warning: 2 of 2 subjects: Odd.\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("states", "status", "line"),
    [
        (["done", "there"], 0, "Wrote "),
        (["done", "failed"], 1, "; 1 of 2 failed"),
        (["there", "failed"], 1, "; 1 of 2 failed"),
        (["failed", "failed"], 2, "Wrote no result: 2 of 2 failed"),
    ],
)
def test_the_exit_status_is_as_documented(
    study, monkeypatch, capsys, states, status, line
):
    outcomes = [Step(f"sub-{i}", state, "words") for i, state in enumerate(states)]
    monkeypatch.setattr(app, "participants", lambda *_: outcomes)
    assert study.run() == status
    assert line in capsys.readouterr().out
