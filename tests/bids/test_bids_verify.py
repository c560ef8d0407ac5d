"""The line in the JSON files of the output verifies each result from the dataset."""

import json
import shlex

import numpy as np
import pytest

from mvpa_kfda import load_result
from mvpa_kfda.bids import app, write
from mvpa_kfda.bids.write import is_of
from mvpa_kfda.cli.main import main
from mvpa_kfda.reports.verified import verification_html
from tests import bids_data

pytestmark = pytest.mark.filterwarnings("ignore:With .* the smallest:RuntimeWarning")
FEW = ["--n-permutations", "5"]
STIMULI = ["--where", "trial_type != 'button'"]


@pytest.fixture(autouse=True)
def no_pages(monkeypatch):
    """Leave the pages out, which take seconds each."""

    def write(paths, page, title):
        page.write_text(title)
        return "done", ""

    monkeypatch.setattr(app, "write_page", write)


def run(*arguments):
    """Run the command for BIDS datasets."""
    return main(["bids", *map(str, arguments)])


def lines_of(out, name="*"):
    """Return the lines of all sidecars of results, each once."""
    paths = [
        p for p in out.rglob(f"{name}.json") if p.name.startswith(("sub-", "group"))
    ]
    paths = [p for p in paths if not p.name.endswith("betaseries.json")]
    return sorted({json.loads(path.read_text())["Verify"] for path in paths})


def run_line(line, *more):
    """Run a line as a shell does, in the folder of the output."""
    program, *arguments = shlex.split(line)
    assert program == "mvpa-kfda"
    return main([*arguments, *more])


def test_the_lines_of_eeg_verify(tmp_path, monkeypatch, capsys):
    root, out = tmp_path / "data set", tmp_path / "data set" / "derivatives" / "out"
    bids_data.write_eeg(root, n_runs=3, loud=(3,))
    given = ["--task", "faces", "--reject", "eeg=60e-6", "--run", "1", "2", *STIMULI]
    given += ["--tmin", "-0.1", "--tmax", "0.2"]
    assert run(root, out, "participant", *given, *FEW) == 0
    more = ["--analysis", "generalization", "--resample", "25"]
    assert run(root, out, "participant", *given, *FEW, *more) == 0
    assert run(root, out, "group", "--method", "t", "--desc", "time") == 0
    monkeypatch.chdir(out)
    lines = lines_of(out)
    assert len(lines) == 5
    assert lines[0] == ("mvpa-kfda verify group/group_task-faces_desc-time_decoding.h5")
    for line in lines:
        assert run_line(line, "--n-cells", "3") == 0, capsys.readouterr()
    # What was found is beside the result, and what shows it is made anew.
    page = out / "sub-02_desc-time_report.html"
    (line,) = [x for x in lines if "sub-02" in x and "desc-time" in x]
    (path,) = out.rglob("sub-02*desc-time*.h5")
    assert is_of(page, [path])
    assert run_line(line, "--n-cells", "3", "--record") == 0
    assert not is_of(page, [path])
    found = verification_html(load_result(path), path)
    assert line in found
    assert "The result holds: all 16 positions recomputed, 2 of" in found
    assert "% confidence, at most" in found
    # The data of another subject are no longer those of the result.
    for path in root.glob("sub-01/eeg/*_eeg.eeg"):
        np.fromfile(path, "<f4")[::-1].tofile(path)
    capsys.readouterr()
    (line,) = [x for x in lines if "sub-01" in x and "desc-time" in x]
    assert run_line(line) == 1
    assert "the data are other ones" in capsys.readouterr().out


@pytest.mark.parametrize("estimate", ["lss", "blocks"])
def test_the_lines_of_fmri_verify(tmp_path, monkeypatch, capsys, estimate):
    root, derived, out = (tmp_path / name for name in ("raw", "prep", "out"))
    subjects = ("01", "02") if estimate == "lss" else ("01",)
    bids_data.write_fmri(root, derived, subjects, 2, shape=(5, 4, 4))
    given = ["--derivatives", derived, *STIMULI, *FEW, "--estimate", estimate]
    given += ["--confounds", "none"]
    assert run(root, out, "participant", *given, "--radius", "4", "--keep-betas") == 0
    assert run(root, out, "participant", *given, "--analysis", "regions") == 0
    if estimate == "lss":
        assert run(root, out, "group", "--method", "sign-flip") == 0
    monkeypatch.chdir(out)
    lines = lines_of(out)
    assert len(lines) == (6 if estimate == "lss" else 2)
    for line in lines:
        assert run_line(line, "--n-cells", "3") == 0, capsys.readouterr()


def test_what_is_not_there_is_said(tmp_path, monkeypatch, capsys):
    root, out = bids_data.write_epochs(tmp_path / "data"), tmp_path / "out"
    assert run(root, out, "participant", *FEW) == 0
    monkeypatch.chdir(out)
    (path,) = out.rglob("sub-01*.h5")
    assert main(["verify", str(path)]) == 2
    assert "The data are missing" in capsys.readouterr().err
    assert main(["verify", str(path), "--bids-dir", str(out)]) == 2
    assert "nothing to decode" in capsys.readouterr().err
    load_result(path).save(tmp_path / "alone.h5")
    assert main(["verify", str(tmp_path / "alone.h5"), "--bids-dir", str(root)]) == 2
    assert "is not a result in the output of mvpa-kfda bids" in capsys.readouterr().err


EDITED = {
    "Inputs": [1, None],
    "Options": [1, [], {"estimate": 3, "analysis": "time"}, {"analysis": "none"}],
    "Sources": [2],
    "Trials": [["images"]],
}


def test_edited_records_are_refused_by_file_and_field(tmp_path, monkeypatch, capsys):
    root, out = bids_data.write_epochs(tmp_path / "data"), tmp_path / "out"
    assert run(root, out, "participant", *FEW) == 0
    (path,) = out.rglob("sub-01*_decoding.h5")
    sidecar = path.with_suffix(".json")
    record = json.loads(sidecar.read_text())
    line = ["verify", str(path), "--bids-dir", str(root), "--n-cells", "2"]
    for name, values in EDITED.items():
        for value in values:
            sidecar.write_text(json.dumps(record | {name: value}))
            assert main(line) == 2
            said = capsys.readouterr().err
            assert sidecar.name in said, said
            assert f"'{name}'" in said, said
            write._facts_of(path), write._corrections_of(path)
    # Nor do they choose where anything is read or written.
    elsewhere = {"bids_dir": "/nowhere", "n_jobs": 400, "output_dir": "/nowhere"}
    edited = record | {"Options": record["Options"] | elsewhere}
    sidecar.write_text(json.dumps(edited))
    assert main(line) == 0
    path.with_name("other_decoding.h5").write_bytes(path.read_bytes())
    sidecar.with_name("other_decoding.json").write_text(json.dumps(record))
    line[1] = str(path.with_name("other_decoding.h5"))
    assert main(line) == 2
    assert "does not have sub and desc" in capsys.readouterr().err
