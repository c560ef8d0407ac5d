"""The BIDS app's output and words: a valid dataset, an overview, warnings said once."""

import json
import re
import shutil
import subprocess
import sysconfig
from dataclasses import replace
from functools import wraps

import mne
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from mvpa_kfda import decode_epochs, generalize_epochs, load_result
from mvpa_kfda.bids import app
from mvpa_kfda.bids.app import Step
from mvpa_kfda.bids.config import tomllib
from mvpa_kfda.bids.write import write_about
from mvpa_kfda.cli import main
from mvpa_kfda.cli.bids import _word_warnings as word_warnings
from mvpa_kfda.reports.sections import SECTIONS
from mvpa_kfda.utils.rounding import p_words
from tests import bids_data

FEW = ["--n-permutations", "5"]
SMALL = ["--where", "trial_type != 'button'", "--radius", "4", *FEW]


def run(*arguments):
    """Run the command; return its exit status."""
    return main(["bids", *map(str, arguments)])


@pytest.fixture
def no_pages(monkeypatch):
    """Leave the pages out, which take seconds each."""

    def write(paths, page, title):
        page.write_text(title)
        return "done", ""

    monkeypatch.setattr(app, "write_page", write)


@pytest.fixture
def epochs(tmp_path, no_pages):
    """Return a dataset of epochs of two subjects, and a place for the output."""
    return bids_data.write_epochs(tmp_path / "data", ("01", "02")), tmp_path / "out"


def result_of(out, name):
    (path,) = out.rglob(f"*{name}*_decoding.h5")
    return load_result(path)


# ----------------------------------------------------------------------- valid datasets


def refused(root):
    """Return files in which the validator of BIDS finds errors."""
    # Beside this Python: an environment that is not activated is not on the path.
    command = shutil.which("bids-validator-deno", path=sysconfig.get_path("scripts"))
    command = [command, "--json", root]
    said = subprocess.run(command, capture_output=True, text=True, timeout=120)
    found = json.loads(said.stdout)["issues"]["issues"]
    errors = [issue["location"] for issue in found if issue["severity"] == "error"]
    assert bool(errors) == bool(said.returncode)
    return sorted(set(errors))


def test_the_output_is_a_valid_dataset(tmp_path, epochs):
    root, derived, out = (tmp_path / name for name in ("raw", "prep", "fmri"))
    bids_data.write_fmri(root, derived, ("01", "02"), 2, shape=(4, 4, 4))
    given = ["--derivatives", derived, *SMALL, "--keep-betas"]
    assert run(root, out, "participant", *given) == 0
    assert run(root, out, "group", "--method", "t") == 0
    data, of_epochs = epochs
    assert run(data, of_epochs, "participant", *FEW) == 0
    for folder in (out, of_epochs):
        assert refused(folder) == []
        assert "index.html" in (folder / "README.md").read_text()
    assert len(list(out.rglob("*_statmap.nii.gz"))) > 9
    # What others wrote into it stays, and what has no place there would be found.
    (out / "README.md").write_text("Ours")
    assert run(root, out, "participant", *given) == 0
    assert (out / "README.md").read_text() == "Ours"
    (out / "sub-01" / "func" / "sub-01_task-x_scores.tsv").write_text("")
    assert refused(out) == ["/sub-01/func/sub-01_task-x_scores.tsv"]


# ------------------------------------------------------------------------- the overview


def test_the_overview_links_all_pages(epochs):
    root, out = epochs
    described = root / "dataset_description.json"
    content = json.loads(described.read_text()) | {"Name": "Faces & <houses>"}
    described.write_text(json.dumps(content))
    assert run(root, out, "participant", *FEW) == 0
    given = ["--desc", "late", "--tmin", "0.2", "--participant-label", "02"]
    assert run(root, out, "participant", *FEW, *given) == 0
    assert run(root, out, "group", "--method", "t", "--desc", "time") == 0
    page = (out / "index.html").read_text()
    links = re.findall(r'<a href="([^"]+)"', page)
    assert sorted(links) == sorted(p.name for p in out.glob("*_report.html"))
    assert len(links) == 4
    assert "Decoding of Faces &amp; &lt;houses&gt;" in page
    assert "<houses>" not in page
    for name in ("sub-01_task-faces_desc-time", "sub-02_task-faces_desc-late"):
        result = result_of(out, name)
        p = p_words(result.pvalues("max").min())
        words = f"highest accuracy {result.worded_peak('accuracy')}</a><br>{p} (max)"
        assert words in page
    # The first subject has not been decoded late.
    row = page.partition("<td>sub-01</td>")[2].partition("</tr>")[0]
    assert row.startswith("<td>\N{EN DASH}</td>")
    content["Name"] = "[Unspecified]"  # by MNE-BIDS
    described.write_text(json.dumps(content))
    # What is no longer there is not on the page.
    for path in out.rglob("*late*"):
        path.unlink()
    assert run(root, out, "participant", *FEW) == 0
    page = (out / "index.html").read_text()
    assert "late" not in page
    assert "<h1>Decoding of data</h1>" in page


def test_tests_of_the_group_stay_side_by_side(epochs, capsys):
    root, out = epochs
    assert run(root, out, "participant", *FEW) == 0
    assert run(root, out, "group", "--method", "t") == 0
    assert run(root, out, "group", "--method", "sign-flip", "--name", "sign flip") == 0
    methods = {path.name: load_result(path).method for path in out.glob("group/*.h5")}
    assert methods == {
        "group_task-faces_desc-time_decoding.h5": "t",
        "group_task-faces_desc-timeSignFlip_decoding.h5": "sign-flip",
    }
    assert "desc-timeSignFlip_report.html" in (out / "index.html").read_text()
    capsys.readouterr()
    assert run(root, out, "group", "--method", "wilcoxon") == 0
    assert "another --name would have kept both" in capsys.readouterr().out


def test_pages_say_how_trials_were_made(tmp_path, monkeypatch):
    few = [each for each in SECTIONS if each.title == "Warnings of the run"]
    monkeypatch.setattr("mvpa_kfda.reports.page.SECTIONS", few)
    root, derived, out = (tmp_path / name for name in ("raw", "prep", "out"))
    bids_data.write_fmri(root, derived, ("01",), 2, shape=(4, 4, 4))
    next(derived.rglob("*run-2*mask.nii.gz")).unlink()
    given = ["--derivatives", derived, *SMALL, "--confounds", "none"]
    assert run(root, out, "participant", *given) == 0
    page = (out / "sub-01_desc-searchlight_report.html").read_text()
    assert "How trials were made" in page
    words = "run 1: 8 decoded, 1 not chosen by --where; run 2: 8 decoded, 1 not chosen"
    assert f"<tr><th>Events</th><td>{words}" in page
    assert "<tr><th>Slice time ref</th><td>0.5</td></tr>" in page
    assert "<th>Runs without mask</th><td>sub-01_task-objects_run-2_space-" in page
    assert "There is no brain mask of sub-01_task-objects_run-2" in page


# ------------------------------------------------------------- warnings and exit status


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


def test_a_stopped_run_says_what_it_warned_of(epochs, monkeypatch, capsys):
    def stopped(*_):
        yield from steps("Odd.", "Odd.")
        raise KeyboardInterrupt

    monkeypatch.setattr(app, "participants", stopped)
    assert run(*epochs, "participant") == 130
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
    epochs, monkeypatch, capsys, states, status, line
):
    outcomes = [Step(f"sub-{i}", state, "words") for i, state in enumerate(states)]
    monkeypatch.setattr(app, "participants", lambda *_: outcomes)
    assert run(*epochs, "participant") == status
    assert line in capsys.readouterr().out


# ----------------------------------------------------------------------- options of EEG


def of_subject(root, subject="01"):
    """Return the epochs of a subject as a user would read them."""
    path = root / f"sub-{subject}" / "eeg" / f"sub-{subject}_task-faces_proc-clean"
    return mne.read_epochs(f"{path}_epo.fif", verbose="error")


def made_by_hand(root, function=decode_epochs, sfreq=None, **options):
    epochs = of_subject(root)
    if sfreq is not None:
        epochs = epochs.load_data().resample(sfreq, verbose="error")
    given = {"groups": "run", "n_permutations": 5, "random_state": 0} | options
    return function(epochs, **given)


@pytest.mark.parametrize(
    ("given", "options"),
    [
        (["--confounds", "rt"], {"confounds": ["rt"]}),
        (["--scale", "channel"], {"scale": "channel"}),
        (
            ["--window", "0.1", "--window-mode", "concatenate", "--step", "0.1"],
            {"window": 0.1, "window_mode": "concatenate", "step": 0.1},
        ),
        (["--resample", "25"], {"sfreq": 25.0}),
    ],
    ids=["confounds", "scale", "window mode", "resampling"],
)
def test_options_of_epochs_are_those_of_the_function(epochs, given, options):
    root, out = epochs
    given = [*given, "--participant-label", "01"]
    assert run(root, out, "participant", *FEW, *given) == 0
    expected, result = made_by_hand(root, **options), result_of(out, "sub-01")
    assert_array_equal(result.times, expected.times)
    assert_array_equal(result.scores, expected.scores)
    assert_array_equal(result.null, expected.null)
    plain = made_by_hand(root)
    same = result.scores.shape == plain.scores.shape
    assert not (same and np.array_equal(result.scores, plain.scores))


def test_confounds_of_generalization(epochs):
    root, out = epochs
    given = ["--analysis", "generalization", "--confounds", "rt", "--resample", "10"]
    assert run(root, out, "participant", *FEW, *given) == 0
    expected = made_by_hand(root, generalize_epochs, 10.0, confounds=["rt"])
    assert_array_equal(result_of(out, "sub-01").scores, expected.scores)


def test_sensors_are_an_analysis_of_their_own(tmp_path, no_pages, capsys):
    root = bids_data.write_epochs(tmp_path / "plane", places=bids_data.PLANE)
    out, given = tmp_path / "out", ["--resample", "10", *FEW]
    assert run(root, out, "participant", *given) == 0
    assert run(root, out, "participant", *given, "--sensors") == 0
    expected = made_by_hand(root, sfreq=10.0, sensors="adjacency")
    result = result_of(out, "sub-01_task-faces_desc-sensors")
    assert result.scores.shape == (5, 3)
    assert_array_equal(result.scores, expected.scores)
    assert result_of(out, "sub-01_task-faces_desc-time").scores.shape == (3,)
    table = pd.read_csv(next(out.rglob("*sub-02*desc-sensors*.tsv")), sep="\t")
    assert list(table["sensor"].unique()) == list(bids_data.PLANE)
    assert run(root, out, "group", "--method", "t", "--desc", "sensors") == 0
    midline = bids_data.write_epochs(tmp_path / "midline")
    capsys.readouterr()
    assert run(midline, tmp_path / "o2", "participant", *given, "--sensors") == 2
    assert "Set the positions" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--tmin", "10"], "proc-clean_epo.fif: tmin (10.0) must be less"),
        (["--resample", "99"], "clean_epo.fif: --resample 99 is above the 50 Hz"),
        (["--resample", "0"], "clean_epo.fif: Invalid value for 'resample': 0.0"),
        (["--confounds", "iq"], "confounds='iq' is not a metadata column"),
        (["--baseline", "none"], "--baseline is for raw recordings"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_mistakes_with_epochs_name_the_file(epochs, capsys, given, message):
    assert run(*epochs, "participant", *FEW, *given) == 2
    first, _ = capsys.readouterr().err.splitlines()
    assert first.startswith("mvpa-kfda: error: sub-01 task-faces: ")
    assert message in first


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """Return raw EEG of one subject."""
    return bids_data.write_eeg(tmp_path_factory.mktemp("raw") / "data", ("01",))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("run-2_eeg.eeg", b"", "run-2_eeg.vhdr: "),
        ("run-1_eeg.json", b"[1,", "run-1_eeg.vhdr: Expecting value"),
        (
            "run-1_events.tsv",
            b"onset\tduration\nsoon\t1\n",
            "onset is 'soon' in line 2",
        ),
        (
            "run-1_events.tsv",
            b"onset\tduration\n1\tlong\n",
            "duration is 'long' in lin",
        ),
    ],
)
def test_errors_of_recordings_name_the_file(
    recorded, no_pages, tmp_path, capsys, name, content, message
):
    root = shutil.copytree(recorded, tmp_path / "data")
    (root / "sub-01" / "eeg" / f"sub-01_task-faces_{name}").write_bytes(content)
    assert run(root, tmp_path / "out", "participant", *FEW) == 2
    said = capsys.readouterr().err
    assert f"sub-01_task-faces_{name.partition('_')[0]}" in said
    assert message in said


def test_raw_recordings_are_resampled_as_epochs(
    recorded, no_pages, tmp_path, monkeypatch
):
    seen = []

    @wraps(decode_epochs)
    def spy(epochs, y, **options):
        seen.append(epochs)
        return decode_epochs(epochs, y, **options)

    spying = replace(app.ANALYSES["time"], function=spy)
    monkeypatch.setitem(app.ANALYSES, "time", spying)
    given = ["--where", "trial_type != 'button'", "--baseline", "none", *FEW]
    given += ["--tmin", "0", "--tmax", "0.3"]
    assert run(recorded, tmp_path / "all", "participant", *given) == 0
    given += ["--resample", "50"]
    assert run(recorded, tmp_path / "less", "participant", *given) == 0
    every, fewer = seen
    parts = [every[np.arange(i, i + 16)].copy() for i in (0, 16)]  # the runs
    expected = [part.resample(50.0, verbose="error").get_data() for part in parts]
    assert fewer.info["sfreq"] == 50.0
    assert_array_equal(fewer.get_data(), np.concatenate(expected))


# -------------------------------------------------------------- several jobs at once


@pytest.mark.usefixtures("no_pages")
def test_the_file_of_an_array_of_jobs_names_all_subjects(tmp_path):
    root, out = bids_data.write_epochs(tmp_path / "data"), tmp_path / "out"

    def subjects_after(*given):
        assert run(root, out, "participant", "--n-permutations", "0", *given) == 0
        text = (out / "participant_desc-time_config.toml").read_text()
        return tomllib.loads(text)["participant"].get("participant-label")

    assert subjects_after("--participant-label", "sub-01") == ["01"]
    assert subjects_after("--participant-label", "02", "--n-jobs", "1") == ["01", "02"]
    assert subjects_after("--participant-label", "02", "--reg", "0.1") == ["02"]
    assert subjects_after("--reg", "0.1") is None


def test_what_comes_in_while_a_file_is_written_is_not_lost(tmp_path):
    there, path = [], tmp_path / "list.txt"

    def write(name, meanwhile=()):
        there.append(name)
        others = list(meanwhile)

        def word(found):
            while others:
                write(others.pop())
            return " ".join(found)

        write_about(path, lambda: sorted(there), word)

    write("a", meanwhile=["b", "c"])
    assert path.read_text() == "a b c"
