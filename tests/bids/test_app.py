"""The BIDS app as a whole: what is there is not done again, the group is as by hand."""

import json
import re
from pathlib import Path

import mne
import pandas as pd
import pytest
from nilearn.image import load_img
from numpy.testing import assert_allclose, assert_array_equal

from mvpa_kfda import group_inference, load_result, methods_text
from mvpa_kfda.bids import app
from mvpa_kfda.bids.app import _with_single_sessions
from mvpa_kfda.bids.store import Output
from mvpa_kfda.utils.checkpoint import Checkpoint
from tests import bids_data
from tests.bids_data import Study

NONE = "--n-permutations 0"


def stop(*_):
    raise KeyboardInterrupt


# ----------------------------------------------------------------------- a second call


def test_a_second_call_does_only_what_is_missing_or_changed(epochs, capsys):
    assert epochs.run() == 0
    before = epochs.times()
    path = epochs.find("*sub-02*proc-clean_epo.fif")
    path.touch()  # as copies have other times, too
    capsys.readouterr()
    assert epochs.run("--n-jobs 1") == 0
    assert capsys.readouterr().out.count("there already") == 2
    assert epochs.times() == before
    (table,) = epochs.out.rglob("*sub-01*.tsv")
    table.unlink()
    first, second = sorted(before)
    second.unlink()
    assert epochs.run() == 0
    assert table.is_file()
    after = epochs.times()
    assert after[first] == before[first]
    assert after[second] > before[second]
    changed = mne.read_epochs(path, verbose="error")[:23]
    changed.save(path, overwrite=True, verbose="error")
    capsys.readouterr()
    assert epochs.run() == 0
    lines = capsys.readouterr().out.splitlines()
    assert "there already" in lines[0]
    assert "replaces an earlier result, as these changed: input files" in lines[1]
    assert epochs.run("--n-permutations 7") == 0
    text = capsys.readouterr().out
    assert text.count("as these changed: --n-permutations;") == 2
    assert text.count("another --desc would have kept both") == 2
    assert all(then > before[path] for path, then in epochs.times().items())
    # Another name keeps both.
    assert epochs.run("--desc 'few trials'") == 0
    assert epochs.result("sub-01_task-faces_desc-fewTrials").n_permutations == 5
    assert epochs.result("sub-01_task-faces_desc-time").n_permutations == 7


def test_a_subject_that_fails_does_not_stop_the_others(epochs, capsys):
    epochs.find("*sub-01*proc-clean_epo.fif").write_bytes(b"no epochs")
    (epochs.root / "sub-03").mkdir()
    assert epochs.run() == 1
    said = capsys.readouterr()
    assert "mvpa-kfda: error: sub-01 task-faces: " in said.err
    assert "sub-03 task-faces: there are no runs of task 'faces'" in said.err
    assert "Traceback" not in said.err
    assert "sub-02 task-faces: highest accuracy" in said.out
    assert "2 of 3 failed" in said.out
    assert [path.name[:6] for path in epochs.out.rglob("*.h5")] == ["sub-02"]


def test_what_fails_late_is_finished_without_decoding_again(
    epochs, monkeypatch, capsys
):
    with monkeypatch.context() as patch:
        patch.setattr(app.Output, "finish", None)
        assert epochs.run() == 2
    before = epochs.times()
    assert not list(epochs.out.rglob("*.tsv"))
    assert epochs.run() == 0
    assert len(list(epochs.out.rglob("*.tsv"))) == 2
    assert epochs.times() == before
    # What cannot be decoded anew does not cost what is there.
    capsys.readouterr()
    assert epochs.run("--cv 99") == 2
    assert "sub-01 task-faces: " in capsys.readouterr().err
    assert epochs.times() == before


def test_a_stopped_searchlight_is_continued(fmri_of_two, tmp_path, monkeypatch, capsys):
    study, whole = (fmri_of_two.elsewhere(tmp_path, name) for name in ("a", "b"))
    words = "--radius 4 --participant-label 01"
    with monkeypatch.context() as patch:
        patch.setattr(Output, "save", stop)
        assert study.run(words) == 130
    assert "stopped; run the same command to continue" in capsys.readouterr().err
    (checkpoint,) = study.out.rglob("*.checkpoint")
    with Checkpoint(checkpoint) as kept:
        assert kept.finished
    assert study.run(words) == whole.run(words) == 0
    assert not list(study.out.rglob("*.checkpoint*"))
    assert_array_equal(study.result().scores, whole.result().scores)


# --------------------------------------------------------------------------- the group


def test_the_group_is_tested_as_by_hand(epochs, fmri_of_two, tmp_path, capsys):
    assert epochs.run() == 0
    assert epochs.run("--method t --correction fdr none", level="group") == 0
    files = sorted(epochs.out.glob("sub-*/eeg/*.h5"))
    expected = group_inference(files, "t", ["fdr", "none"], random_state=0)
    path = epochs.out / "group" / "group_task-faces_desc-time_decoding.h5"
    result = load_result(path)
    assert_array_equal(result.pvalues("fdr"), expected.pvalues("fdr"))
    assert list(result.subjects) == ["01", "02"]
    table = pd.read_csv(path.with_suffix(".tsv"), sep="\t")
    assert_allclose(table["p_fdr"], expected.pvalues("fdr"), rtol=1e-12, atol=0)
    citations = (epochs.out / "CITATION.bib").read_text()
    keys = re.findall(r"(?m)^@\w+\{(\w+),$", citations)
    assert len(keys) == len(set(keys)) > 5
    # Of the subjects' tests, and of the group's.
    assert {"Nichols2002", "Benjamini1995"} <= set(keys)
    capsys.readouterr()
    assert epochs.run("--method t --correction fdr none", level="group") == 0
    assert "there already" in capsys.readouterr().out
    # Tests with a name of their own stay side by side.
    assert epochs.run("--method sign-flip --name 'sign flip'", level="group") == 0
    methods = {x.name: load_result(x).method for x in epochs.out.glob("group/*.h5")}
    assert methods == {
        "group_task-faces_desc-time_decoding.h5": "t",
        "group_task-faces_desc-timeSignFlip_decoding.h5": "sign-flip",
    }
    capsys.readouterr()
    assert epochs.run("--method wilcoxon", level="group") == 0
    assert "another --name would have kept both" in capsys.readouterr().out
    # Of images there are maps.
    fmri = fmri_of_two.elsewhere(tmp_path, "of images")
    assert fmri.run("--radius 4") == 0
    words = "--method sign-flip --correction none"
    assert fmri.run(words, level="group") == 0
    files = sorted(fmri.out.glob("sub-*/func/*.h5"))
    options = {"random_state": 0, "resample": True}
    expected = group_inference(files, "sign-flip", "none", **options)
    (path,) = fmri.out.glob("group/*stat-p_statmap.nii.gz")
    found = load_img(path).get_fdata()[1:3].ravel()
    assert_allclose(found, expected.pvalues(), rtol=1e-6, atol=0)


def group_of(study):
    (path,) = study.out.glob("group/*.h5")
    return list(load_result(path).subjects)


def test_the_group_has_the_subjects_of_the_dataset(tmp_path, capsys):
    root = bids_data.write_epochs(tmp_path / "data", ("01", "02", "03"))
    study = Study(root, tmp_path / "out", ("--resample", "10", *bids_data.FEW))
    assert study.run() == 0
    test = {"words": "--method t", "level": "group"}
    assert study.run(**test) == 0
    assert group_of(study) == ["01", "02", "03"]
    gone = root / "sub-02"
    gone.rename(tmp_path / "gone")
    capsys.readouterr()
    assert study.run(**test) == 0
    said = capsys.readouterr()
    assert group_of(study) == ["01", "03"]
    assert "left out: sub-02, not in the dataset" in said.out
    assert "replaces an earlier result" in said.out
    page = (study.out / "index.html").read_text()
    assert "left out: sub-02, not in the dataset" in page
    assert study.run("--participant-label 02", level="group") == 2
    assert "--participant-label 02: no" in capsys.readouterr().err
    (tmp_path / "gone").rename(gone)
    # Results of other options are said.
    assert study.run("--participant-label 02 --max-dropped 9") == 0
    capsys.readouterr()
    assert study.run(**test) == 0
    assert "max_dropped (9.0 of sub-02)" in capsys.readouterr().err
    # Those of few trials are left out if asked for, which a preview says.
    assert study.run("--participant-label 02 --where 'rt > 0.5'") == 0
    capsys.readouterr()
    for more in ("--dry-run", "", ""):
        assert study.run(f"--method t --min-trials 12 {more}", level="group") == 0
        said = re.search(
            r"left out: sub-02 \((\d) \w+\), with fewer trials than --min-",
            (capsys.readouterr().out),
        )
        assert int(said[1]) < 12
        assert more or group_of(study) == ["01", "03"]
    (record,) = study.out.glob("group/*_decoding.json")
    record = json.loads(record.read_text())
    assert record["Options"]["min_trials"] == 12
    assert "sub-02" not in str(record["Sources"])
    # They must be whole.
    for ending in ("tsv", "h5"):
        (path,) = (study.out / "sub-02").rglob(f"*_decoding.{ending}")
        path.write_bytes(path.read_bytes()[:-1] + b"x")
        assert study.run(**test) == 2
        assert "sub-02" in (said := capsys.readouterr().err)
        assert "level participant" in said
    for path in (study.out / "sub-03").rglob("*.*"):
        path.unlink()
    assert study.run("--participant-label 02") == 0
    for label in ("", " --participant-label 01 02 03"):
        assert study.run(f"--method t{label}", level="group") == 0
        assert "without a result: sub-03" in capsys.readouterr().out


def test_sessions_that_were_chosen_are_tests_of_their_own():
    names = {None: ["01", "02"], "1": ["03"], "2": ["04"]}
    tests = {
        (*(() if ses is None else (("ses", ses),)), ("task", "faces")): {
            name: Path(name) for name in of_session
        }
        for ses, of_session in names.items()
    }
    joined, first, second = tests
    chosen = {key: dict(each) for key, each in tests.items()}
    assert _with_single_sessions(tests) == {joined: ["03", "04"]}
    assert {key: list(each) for key, each in tests.items()} == {
        joined: ["01", "02", "03", "04"]
    }
    # Subject 01 has results of a session, too: of 03 it may have been chosen as well.
    chosen[first]["01"] = Path("01")
    assert _with_single_sessions(chosen) == {}
    assert [*chosen] == [joined, first, second]


@pytest.mark.parametrize(
    ("in_sessions", "n_left"),
    [
        (True, 1),
        pytest.param(True, 2, marks=pytest.mark.slow),
        pytest.param(False, 1, marks=pytest.mark.slow),
    ],
)
def test_groups_are_sessions_where_each_has_one_run(
    tmp_path, capsys, in_sessions, n_left
):
    root = bids_data.write_eeg(tmp_path / "data", in_sessions=in_sessions)
    bids_data.write_eeg(root, ["03"], n_runs=n_left, seed=1, in_sessions=in_sessions)
    given = ("--where", bids_data.STIMULI, "--tmax", "0.1", "--n-permutations", "0")
    study, what = (
        Study(root, tmp_path / "out", given),
        "session" if in_sessions else "run",
    )
    assert study.run() == 0
    result = study.result()
    assert result.parameters["recordings"]["group"] == what
    text = methods_text(result)
    assert f"leave-one-{what}-out cross-validation" in text
    assert f"trials were in 2 {what}s" in text
    capsys.readouterr()
    assert study.run("--method t --correction none", level="group") == 0
    shown, told = capsys.readouterr()
    assert ("of a single session: sub-03" in shown) == (in_sessions and n_left == 1)
    (path,) = study.out.glob("group/*.h5")
    group = load_result(path)
    of_group = methods_text(group)
    assert (f"leave-one-{what}-out" in of_group) == (n_left == 2)
    assert group.n_subjects == 3
    # One session leaves nothing to leave out: folds are others, which is told.
    for said in (told, " ".join(group.warnings)):
        for words in (
            "was analysed differently from the first: ",
            "cv (KFold(",
            "groups (no instead of yes)",
            f"recordings.group (none instead of {what})",
        ):
            assert (words in said) == (n_left == 1)
    assert ("kind of folds (03)" in of_group) == (n_left == 1)
