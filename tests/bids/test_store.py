"""What is there already: only what was made of this very content, and is whole."""

import gzip
import json
import os
import sys
from pathlib import Path

import nibabel
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from mvpa_kfda.bids import app
from tests import bids_data
from tests.bids_data import SPACE, Study

FEW = ("--n-permutations", "3")
#: Where the audit hook, which cannot be taken away, writes names of files.
OPENED = []


def stop(*_):
    raise KeyboardInterrupt


def fail(*_):
    raise ValueError("made anew")


def _note(event, arguments):
    if OPENED and event == "open" and isinstance(arguments[0], str | os.PathLike):
        reads = not isinstance(arguments[1], str) or "r" in arguments[1]
        if reads:
            OPENED[0].add(os.path.realpath(arguments[0]))


def write_images(root):
    """Write images of single trials with tables, and a mask one folder up."""
    rng = np.random.default_rng(0)
    bids_data.describe(root, "GLMsingle")
    folder = root / "sub-01" / "func"
    folder.mkdir(parents=True)
    for run in (1, 2):
        stem = f"sub-01_task-objects_run-{run}_betaseries"
        data = rng.normal(size=(4, 4, 3, 8))
        nibabel.Nifti1Image(data, bids_data.AFFINE).to_filename(
            folder / f"{stem}.nii.gz"
        )
        table = pd.DataFrame({"trial_type": ["cat", "dog"] * 4, "onset": range(8)})
        table.to_csv(folder / f"{stem}.tsv", sep="\t", index=False)
    mask = nibabel.Nifti1Image(np.ones((4, 4, 3), np.uint8), bids_data.AFFINE)
    mask.to_filename(root / "sub-01" / "sub-01_desc-brain_mask.nii.gz")
    return root


def inherit(derived):
    """Put what all runs have in common one folder up, as BIDS allows."""
    for subject in derived.glob("sub-*"):
        for end in ("desc-preproc_bold.json", "desc-brain_mask.nii.gz"):
            several = sorted((subject / "func").glob(f"*_{end}"))
            common = f"{subject.name}_task-objects_space-{SPACE}_{end}"
            several[0].rename(subject / common)
            for path in several[1:]:
                path.unlink()


@pytest.fixture(params=["raw", "epochs", "bold", "images"])
def study(request, raw_eeg, epochs_of_two, fmri_of_two, tmp_path):
    """Return a dataset of a kind that a test may change."""
    return copy_of(request.param, raw_eeg, epochs_of_two, fmri_of_two, tmp_path)


def copy_of(kind, raw_eeg, epochs_of_two, fmri_of_two, tmp_path):
    if kind == "images":
        root = write_images(tmp_path / "data")
        given = ("--estimate", "images", "--radius", "4", *FEW)
        return Study(root, tmp_path / "out", given)
    sources = {"raw": raw_eeg, "epochs": epochs_of_two, "bold": fmri_of_two}
    study = sources[kind].copy(tmp_path)
    if kind != "bold":
        return study
    inherit(study.root / "prep")
    atlas = np.ones((6, 6, 5), np.int16)
    atlas[2:] = 2
    image = nibabel.Nifti1Image(atlas, bids_data.AFFINE)
    image.to_filename(tmp_path / "atlas.nii")
    (tmp_path / "names.tsv").write_text("index\tname\n1\tleft\n2\tright\n")
    given = ("--confounds", "compcor", "--analysis", "regions", "--labels-img")
    given += (tmp_path / "atlas.nii", "--lut", tmp_path / "names.tsv", *FEW)
    return Study(study.root, study.out, study.given + given)


def damage(path):
    """Change one byte of a file, and neither its size nor its time."""
    state, content = path.stat(), bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))


def place_of(uri, study):
    """Return the file that a record names."""
    if uri.startswith("file:"):
        return Path(uri.removeprefix("file://"))
    _, place, name = uri.split(":")
    return {"raw": study.root, "preprocessed": study.root / "prep"}[place] / name


# ------------------------------------------------------------------------ what is read


def test_every_file_that_is_read_is_on_record_and_any_change_is_seen(
    study, tmp_path, capsys, monkeypatch
):
    words = "--participant-label 01"
    sys.addaudithook(_note)
    OPENED.append(set())
    try:
        assert study.run(words) == 0
    finally:
        opened = OPENED.pop()
    inputs = study.record()["Inputs"]
    known = {os.path.realpath(place_of(uri, study)) for uri in inputs}
    own = os.path.realpath(study.out)
    opened = {p for p in opened if p.startswith(os.path.realpath(tmp_path))}
    opened = {p for p in opened if not p.startswith(own) and os.path.isfile(p)}
    opened = {p for p in opened if not p.endswith("dataset_description.json")}
    assert len(opened) > 0
    assert opened - known == set()

    monkeypatch.setattr(app, "read_trials", fail)
    for uri in inputs:
        path = place_of(uri, study)
        if path.name == "participants.tsv":  # of others it may change
            continue
        content, state = path.read_bytes(), path.stat()
        damage(path)
        assert study.run(words) == 2, path
        assert "made anew" in capsys.readouterr().err
        path.write_bytes(content)
        os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert study.run(words) == 0
    assert "there already" in capsys.readouterr().out


# --------------------------------------------------------------------- what is written


@pytest.fixture(scope="module")
def searched(tmp_path_factory):
    """Return a searchlight that is done: result, tables, maps and page."""
    study = copy_of("images", None, None, None, tmp_path_factory.mktemp("searched"))
    assert study.run() == 0
    return study


@pytest.fixture
def finished(searched, tmp_path):
    """Return a copy of it that a test may change; it is known by content."""
    return searched.copy(tmp_path)


def test_any_damage_of_any_output_is_mended(finished, capsys):
    out = finished.out
    files = [*out.glob("sub-01/func/*"), *out.glob("sub-01*_report.html")]
    before = {path: path.read_bytes() for path in files}
    assert {path.suffix for path in files} == {
        *(".h5", ".json", ".tsv", ".gz", ".html")
    }
    for path in files:
        harms = damage, lambda path: path.write_bytes(b"")
        for harm in harms if path.suffix in (".h5", ".gz", ".html") else harms[:1]:
            harm(path)
            status = finished.run()
            if path.name.endswith("_decoding.json"):  # nobody knows what it was of
                assert status == 2 or path.read_bytes() == before[path]
                path.write_bytes(before[path])
                continue
            assert status == 0
            if path.suffix not in (".h5", ".gz"):  # which may hold times
                assert len(path.read_bytes()) == len(before[path]), path
    for path in files:
        if path.suffix == ".gz":
            expected = nibabel.Nifti1Image.from_bytes(gzip.decompress(before[path]))
            assert_array_equal(nibabel.load(path).get_fdata(), expected.get_fdata())
    capsys.readouterr()
    assert finished.run() == 0
    assert "there already" in capsys.readouterr().out


def test_nothing_else_is_deleted_or_replaced(finished, capsys):
    out = finished.out
    (record,) = out.rglob("*_decoding.json")
    folder, content = record.parent, json.loads(record.read_text())
    victims = [folder / "victim.txt", out / "victim.txt"]
    victims += [folder / record.name.replace("_decoding.json", "Other_decoding.tsv")]
    for path in victims:
        path.write_text("mine")
    names = ["victim.txt", victims[2].name, "../../victim.txt", str(victims[1])]
    for files in (names, dict.fromkeys(names, ""), 3):
        record.write_text(json.dumps(content | {"Files": files, "Digest": "0"}))
        assert finished.run() == 0
        content = json.loads(record.read_text())
    assert [path.read_text() for path in victims] == ["mine"] * 3
    # Links are not followed to be replaced.
    target, (table,) = out.with_name("kept.tsv"), out.rglob("*_peaks.tsv")
    target.write_bytes(table.read_bytes())
    table.unlink()
    table.symlink_to(target)
    capsys.readouterr()
    assert finished.run() == 0  # as it was written
    assert "there already" in capsys.readouterr().out
    assert finished.run("--n-permutations 4") == 2
    assert "is a link or no file at all" in capsys.readouterr().err
    assert table.is_symlink()
    assert target.is_file()
    # Nor is a result of unknown origin.
    table.unlink()
    record.unlink()
    before = finished.times()
    assert finished.run() == 2
    assert "says how it was made" in capsys.readouterr().err
    assert finished.times() == before


def test_files_of_runs_that_were_stopped_or_of_other_options_do_not_stay(
    finished, monkeypatch
):
    with monkeypatch.context() as patch:
        patch.setattr(app.Output, "_record", stop)
        assert finished.run("--correction fdr --n-permutations 4") == 130
    assert finished.run("--n-permutations 4 --scoring roc_auc") == 0
    assert not list(finished.out.rglob("*stat-pFdr*"))
    assert not list(finished.out.rglob("*stat-accuracy*"))
    assert len(list(finished.out.rglob("*stat-rocAuc*.nii.gz"))) == 1


# ------------------------------------------------------------------------- kept images


def test_kept_images_of_trials_are_read_again(fmri, capsys, monkeypatch):
    words = "--participant-label 01 --n-permutations 0"
    words += " --where \"rt > 0 and trial_type != 'button'\""
    more = f"{words} --analysis regions --train-on 'onset < 50' --desc"
    assert fmri.run(f"{more} anew") == 0
    assert fmri.run(f"{words} --radius 4 --keep-betas --desc first") == 0
    (folder,) = fmri.out.rglob("func")
    kept = sorted(folder.glob("*_betaseries*"))
    assert [p.name.partition("betaseries")[2] for p in kept] == [
        *(".json", ".nii.gz", ".tsv", "_mask.nii.gz")
    ]
    capsys.readouterr()
    monkeypatch.setattr(app, "read_trials", fail)
    assert fmri.run(f"{more} again") == 0
    stem = f"sub-01_task-objects_space-{SPACE}_desc-first_betaseries"
    assert f"; trials from {stem}.nii.gz; " in capsys.readouterr().out
    assert fmri.result("desc-again") == fmri.result("desc-anew")
    assert fmri.record("desc-again")["Trials"]["TrialsFrom"] == f"{stem}.nii.gz"
    # What was changed by others is made anew, and so is what is of other options.
    assert fmri.run(f"{more} other --where 'rt > 0.1'") == 2
    assert "made anew" in capsys.readouterr().err
    (folder / f"{stem}.tsv").write_text((folder / f"{stem}.tsv").read_text() + "\n")
    assert fmri.run(f"{more} changed") == 2
    assert "made anew" in capsys.readouterr().err


def test_images_are_kept_of_a_result_that_is_there(fmri, capsys):
    words = "--participant-label 01 --radius 4"
    assert fmri.run(words) == 0
    before = fmri.result()
    capsys.readouterr()
    assert fmri.run(f"{words} --keep-betas") == 0
    assert "there already, images of trials kept" in capsys.readouterr().out
    assert len(list(fmri.out.rglob("*_betaseries.nii.gz"))) == 1
    assert fmri.run(f"{words} --keep-betas") == 0
    assert "objects: there already\n" in capsys.readouterr().out
    # They are a dataset of single trials, which any analysis takes.
    series = Study(fmri.out, fmri.out.with_name("next"))
    assert series.run("--estimate images --radius 4") == 0
    assert_array_equal(series.result().scores, before.scores)
