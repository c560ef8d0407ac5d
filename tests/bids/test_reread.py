"""The line in the JSON files of the output verifies each result from the dataset."""

import json
import shlex

import numpy as np
import pytest

from mvpa_kfda import load_result
from mvpa_kfda.bids import write
from mvpa_kfda.bids.write import is_of
from mvpa_kfda.cli.main import main
from mvpa_kfda.reports.verified import verification_html

pytestmark = pytest.mark.filterwarnings("ignore:With .* the smallest:RuntimeWarning")


def lines_of(study):
    """Return the lines of all sidecars of results, each once."""
    paths = [p for p in study.out.rglob("*.json") if p.name[:4] in ("sub-", "grou")]
    paths = [p for p in paths if not p.name.endswith("betaseries.json")]
    return sorted({json.loads(path.read_text())["Verify"] for path in paths})


def run_line(line, *more):
    """Run a line as a shell does, in the folder of the output."""
    program, *arguments = shlex.split(line)
    assert program == "mvpa-kfda"
    return main([*arguments, *more])


def test_the_lines_of_eeg_verify(eeg, monkeypatch, capsys):
    words = "--run 1 2 --reject eeg=60e-6 --tmin -0.1"
    assert eeg.run(words) == 0
    only = "--participant-label 01 --resample 25"
    assert eeg.run(f"{words} --analysis generalization {only}") == 0
    assert eeg.run("--method t --desc time", level="group") == 0
    monkeypatch.chdir(eeg.out)
    lines = lines_of(eeg)
    assert len(lines) == 4
    assert lines[0] == "mvpa-kfda verify group/group_task-faces_desc-time_decoding.h5"
    for line in lines:
        assert run_line(line, "--n-cells", "3") == 0, capsys.readouterr()
    # What was found is beside the result, and what shows it is made anew.
    page = eeg.out / "sub-02_desc-time_report.html"
    (line,) = [x for x in lines if "sub-02" in x and "desc-time" in x]
    (path,) = eeg.out.rglob("sub-02*desc-time*.h5")
    assert is_of(page, [path])
    assert run_line(line, "--n-cells", "3", "--record") == 0
    assert not is_of(page, [path])
    found = verification_html(load_result(path), path)
    assert line in found
    assert "The result holds: all 16 positions recomputed, 2 of" in found
    assert "% confidence, at most" in found
    # The data of another subject are no longer those of the result.
    for path in eeg.root.glob("sub-01/eeg/*_eeg.eeg"):
        np.fromfile(path, "<f4")[::-1].tofile(path)
    capsys.readouterr()
    (line,) = [x for x in lines if "sub-01" in x and "desc-time" in x]
    assert run_line(line) == 1
    assert "the data are other ones" in capsys.readouterr().out


@pytest.mark.parametrize(
    "several",
    [
        # Trials of the second one are those that the first one keeps.
        ["--estimate lss --radius 4 --keep-betas", "--estimate lss --analysis regions"],
        ["--estimate blocks --analysis regions"],
    ],
    ids=["kept", "blocks"],
)
def test_the_lines_of_fmri_verify(fmri, monkeypatch, capsys, several):
    for words in several:
        assert fmri.run(f"{words} --confounds none --participant-label 01") == 0
    monkeypatch.chdir(fmri.out)
    lines = lines_of(fmri)
    assert len(lines) == len(several)
    for line in lines:
        assert run_line(line, "--n-cells", "3") == 0, capsys.readouterr()


EDITED = {
    "Inputs": [1, None],
    "Options": [1, [], {"estimate": 3, "analysis": "time"}, {"analysis": "none"}],
    "Sources": [2],
    "Trials": [["images"]],
}


def test_what_is_missing_or_edited_is_refused(epochs, monkeypatch, tmp_path, capsys):
    def said(*words):
        assert main(["verify", *map(str, words)]) == 2
        return capsys.readouterr().err

    assert epochs.run() == 0
    monkeypatch.chdir(epochs.out)
    (path,) = epochs.out.rglob("sub-01*_decoding.h5")
    of_root = ["--bids-dir", epochs.root, "--n-cells", "2"]
    assert "The data are missing" in said(path)
    assert "nothing to decode" in said(path, "--bids-dir", epochs.out)
    load_result(path).save(tmp_path / "alone.h5")
    alone = said(tmp_path / "alone.h5", *of_root)
    assert "is not a result in the output of mvpa-kfda bids" in alone
    sidecar = path.with_suffix(".json")
    record = json.loads(sidecar.read_text())
    for name, values in EDITED.items():
        for value in values:
            sidecar.write_text(json.dumps(record | {name: value}))
            words = said(path, *of_root)
            assert sidecar.name in words, words
            assert f"'{name}'" in words, words
            write._facts_of(path), write._corrections_of(path)
    # Nor do they choose where anything is read or written.
    elsewhere = {"bids_dir": "/nowhere", "n_jobs": 400, "output_dir": "/nowhere"}
    edited = record | {"Options": record["Options"] | elsewhere}
    sidecar.write_text(json.dumps(edited))
    assert main(["verify", *map(str, [path, *of_root])]) == 0
    other = path.with_name("other_decoding.h5")
    other.write_bytes(path.read_bytes())
    other.with_suffix(".json").write_text(json.dumps(record))
    assert "does not have sub and desc" in said(other, *of_root)
